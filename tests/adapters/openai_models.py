"""The SDK's own scripted model; for an SDK that has none (before 0.21), as much of one as the tests need."""

try:
    from agents.testing import ScriptedModel, assistant_message, function_call
except ModuleNotFoundError:
    import json
    from collections.abc import AsyncIterator, Iterable, Mapping
    from copy import deepcopy
    from dataclasses import dataclass
    from typing import Any

    from agents import Model, ModelResponse, Usage
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    @dataclass(frozen=True)
    class _Call:
        input: Any
        tools: list[Any]

    class ScriptedModel(Model):  # type: ignore[no-redef]
        """Gives the outputs it was made with, one a call."""

        def __init__(self, steps: Iterable[list[Any]]) -> None:
            self._steps = list(steps)
            self.calls: list[_Call] = []

        async def get_response(  # type: ignore[override]
            self,
            system_instructions: str | None,
            input: Any,  # noqa: A002 (the SDK passes it by this name)
            model_settings: Any,
            tools: list[Any],
            *_: Any,
            **__: Any,
        ) -> ModelResponse:
            self.calls.append(_Call(deepcopy(input), tools))
            return ModelResponse(output=self._steps.pop(0), usage=Usage(), response_id=None)

        async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:  # type: ignore[override]
            output = (await self.get_response(*args, **kwargs)).output
            settled = {"tools": [], "tool_choice": "none", "parallel_tool_calls": True}
            response = Response(id="1", created_at=0, model="any", object="response", output=output, **settled)
            yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)

        def assert_complete(self) -> None:
            assert not self._steps

    def assistant_message(text: str) -> Any:
        content = ResponseOutputText(text=text, type="output_text", annotations=[])
        return ResponseOutputMessage(
            id="message", type="message", role="assistant", status="completed", content=[content]
        )

    def function_call(name: str, arguments: str | Mapping[str, Any], *, call_id: str) -> Any:
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return ResponseFunctionToolCall(
            id=call_id, call_id=call_id, type="function_call", name=name, arguments=arguments
        )


__all__ = ["ScriptedModel", "assistant_message", "function_call"]
