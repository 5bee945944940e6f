"""A server on this machine that speaks OpenAI's Responses and Chat Completions APIs, plain and streamed.

Behind it is a model that calls the first tool with the arguments it is set to, and answers with what the tools gave.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.adapters.openai_rules import refusals_of_function

Event = dict[str, Any]


class OpenAIServer(ThreadingHTTPServer):
    """Listens on a free port of the loopback interface.

    Args:
        arguments: What the model sends to the tool, one JSON text for each of its parallel calls.
    """

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.arguments = arguments
        self.requests: list[tuple[str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def calls(self) -> list[tuple[str, str]]:
        """The calls of the tool: id and arguments."""
        return [(f"call_{number}", arguments) for number, arguments in enumerate(self.arguments)]


@contextmanager
def serving(*arguments: str) -> Iterator[OpenAIServer]:
    with OpenAIServer(list(arguments)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: OpenAIServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        api = {"/v1/responses": _Responses, "/v1/chat/completions": _ChatCompletions}.get(self.path)
        if api is None or self.headers["Authorization"] != "Bearer key":
            return self._answer(404 if api is None else 401, {"error": {"message": "no such thing"}})
        refusals = [refusal for function in api.functions(body) for refusal in refusals_of_function(function)]
        outputs = api.outputs(body)
        if outputs and list(outputs) != [id_ for id_, _ in self.server.calls]:
            refusals.append(f"No tool output found for a function call, got {list(outputs)}.")
        if refusals:
            error = {"message": refusals[0], "type": "invalid_request_error", "param": "tools", "code": None}
            return self._answer(400, {"error": error})
        if outputs:
            message = api.message("\n---\n".join(outputs.values()))
        else:
            message = api.call_tool(api.functions(body)[0]["name"], self.server.calls)
        return self._stream(api.events(message)) if body.get("stream") else self._answer(200, message)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(body))

    def _stream(self, events: list[Event]) -> None:
        lines = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
        text = "".join(f"{line}data: {json.dumps(event)}\n\n" for line, event in zip(lines, events, strict=True))
        self._send(200, "text/event-stream", text + "data: [DONE]\n\n")

    def _send(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


class _Responses:
    @staticmethod
    def functions(body: dict[str, Any]) -> list[dict[str, Any]]:
        return [tool for tool in body.get("tools", ()) if tool["type"] == "function"]

    @staticmethod
    def outputs(body: dict[str, Any]) -> dict[str, str]:
        items = [item for item in body["input"] if item.get("type") == "function_call_output"]
        return {item["call_id"]: item["output"] for item in items}

    @classmethod
    def call_tool(cls, name: str, calls: list[tuple[str, str]]) -> dict[str, Any]:
        return cls._response(
            {"type": "function_call", "id": f"fc_{id_}", "call_id": id_, "name": name, "arguments": arguments}
            for id_, arguments in calls
        )

    @classmethod
    def message(cls, text: str) -> dict[str, Any]:
        content = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return cls._response([{"type": "message", "id": "msg_1", "role": "assistant", "content": [content]}])

    @staticmethod
    def _response(items: Any) -> dict[str, Any]:
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "any",
            "status": "completed",
            "output": [{**item, "status": "completed"} for item in items],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 1,
                "output_tokens": 1,
                "total_tokens": 2,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }

    @staticmethod
    def events(response: dict[str, Any]) -> list[Event]:
        events: list[Event] = [{"type": "response.created", "response": {**response, "output": []}}]
        for index, item in enumerate(response["output"]):
            place = {"item_id": item["id"], "output_index": index}
            events.append({"type": "response.output_item.added", "output_index": index, "item": item})
            if item["type"] == "function_call":
                first, second = item["arguments"][:3], item["arguments"][3:]
                events += [
                    {"type": "response.function_call_arguments.delta", "delta": part, **place}
                    for part in (first, second)
                ]
                done = {"arguments": item["arguments"], "name": item["name"]}
                events.append({"type": "response.function_call_arguments.done", **done, **place})
            else:
                part = item["content"][0]
                place["content_index"] = 0
                delta = {"delta": part["text"], "logprobs": []}
                events += [
                    {"type": "response.content_part.added", "part": {**part, "text": ""}, **place},
                    {"type": "response.output_text.delta", **delta, **place},
                    {"type": "response.content_part.done", "part": part, **place},
                ]
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        events.append({"type": "response.completed", "response": response})
        return [{**event, "sequence_number": number} for number, event in enumerate(events)]


class _ChatCompletions:
    @staticmethod
    def functions(body: dict[str, Any]) -> list[dict[str, Any]]:
        return [tool["function"] for tool in body.get("tools", ())]

    @staticmethod
    def outputs(body: dict[str, Any]) -> dict[str, str]:
        return {
            message["tool_call_id"]: message["content"] for message in body["messages"] if message["role"] == "tool"
        }

    @classmethod
    def call_tool(cls, name: str, calls: list[tuple[str, str]]) -> dict[str, Any]:
        made = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id_, arguments in calls
        ]
        return cls._completion("tool_calls", content=None, tool_calls=made)

    @classmethod
    def message(cls, text: str) -> dict[str, Any]:
        return cls._completion("stop", content=text)

    @staticmethod
    def _completion(reason: str, **message: Any) -> dict[str, Any]:
        return {
            "id": "chatcmpl_1",
            "object": "chat.completion",
            "created": 1,
            "model": "any",
            "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }

    @staticmethod
    def events(completion: dict[str, Any]) -> list[Event]:
        head = {**completion, "object": "chat.completion.chunk", "usage": None}
        choice = completion["choices"][0]
        deltas: list[dict[str, Any]] = [{"role": "assistant"}]
        for index, call in enumerate(choice["message"].get("tool_calls", ())):
            arguments = call["function"]["arguments"]
            started = {**call, "index": index, "function": {**call["function"], "arguments": arguments[:3]}}
            rest = {"index": index, "function": {"arguments": arguments[3:]}}
            deltas += [{"tool_calls": [started]}, {"tool_calls": [rest]}]
        if choice["message"]["content"] is not None:
            deltas.append({"content": choice["message"]["content"]})
        chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
        return [*chunks, {**head, "choices": [], "usage": completion["usage"]}]
