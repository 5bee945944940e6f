"""Run with the wheel alone, away from the sources: what a plain install must do."""

import importlib
import logging
import os
import subprocess
import sys
import tempfile


def main() -> None:
    import kb_core

    assert "site-packages" in kb_core.__file__, kb_core.__file__
    os.environ["KB_HOME"] = tempfile.mkdtemp()
    os.environ["HF_HUB_OFFLINE"] = "1"
    logging.basicConfig(level=logging.ERROR)
    with kb_core.LocalKB("wheel") as kb:
        kb.add_text("Refunds are paid within 30 days.", source="policy.md")
        kb.add_text("The office closes at six.", source="office.md")
        answer = kb.as_tool().call("When do I get my money back? refunds", top_k=1)
    assert answer.startswith("[Score: ") and answer.endswith("] Refunds are paid within 30 days."), answer
    command = [sys.executable, "-m", "kb_core", "--kb", "wheel", "search", "refunds", "-k", "1"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "Refunds are paid within 30 days." in printed, printed
    for adapter in ("langchain", "llamaindex", "openai-agents"):
        try:
            importlib.import_module(f"kb_{adapter.replace('-', '_')}")
        except ImportError as error:
            assert f'pip install "kb-core[{adapter}]"' in str(error), error
        else:
            raise AssertionError(f"the adapter for {adapter} was imported without its framework")
    print("the bare wheel works")


if __name__ == "__main__":
    main()
