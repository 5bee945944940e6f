"""LangChain's own suites for retrievers and tools, unmodified."""

from typing import Any, ClassVar

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from kb_core import LocalKB
from kb_langchain import KBRetriever, kb_tool


class _OnPolicies:
    kb: ClassVar[LocalKB]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _use(cls, kb: LocalKB) -> None:
        cls.kb = kb


class TestRetriever(_OnPolicies, RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return KBRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"kb": self.kb}

    @property
    def retriever_query_example(self) -> str:
        return "how do I return something?"


class TestRetrieverByTopK(TestRetriever):
    @property
    def num_results_arg_name(self) -> str:
        return "top_k"


class _Tool(_OnPolicies):
    @property
    def tool_constructor(self) -> BaseTool:
        return kb_tool(self.kb)

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"query": "how do I return something?", "top_k": 2}


class TestTool(_Tool, ToolsUnitTests):
    pass


class TestToolRuns(_Tool, ToolsIntegrationTests):
    pass
