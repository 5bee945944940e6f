"""kb-core for the OpenAI Agents SDK: a knowledge base as a function tool.

Needs the extra: `pip install "kb-core[openai-agents]"`.
"""

try:
    import agents  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "agents":  # an install that is broken, not one that is missing
        raise
    raise ImportError('kb_openai_agents needs openai-agents: pip install "kb-core[openai-agents]"') from error

from kb_openai_agents.tool import kb_tool

__all__ = ["kb_tool"]
