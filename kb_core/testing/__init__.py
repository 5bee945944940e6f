"""Contract suites: what every implementation of a protocol in `kb_core.protocols` must do.

Subclass one in a test module of your own and give it a `store` fixture:

```python
class TestMyKeywordStore(KeywordStoreSuite):
    @pytest.fixture
    def store(self):
        return MyKeywordStore()
```
"""

import pkgutil

try:
    import pytest
except ModuleNotFoundError as error:
    if error.name != "pytest":
        raise
    raise ImportError("kb_core.testing needs pytest: pip install 'kb-core[testing]'") from error

# Before any of them is imported; without it a failing assert would show no values.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)))
