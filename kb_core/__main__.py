"""`python -m kb_core` is `kb`."""

from kb_core.cli import main

if __name__ == "__main__":
    main()
