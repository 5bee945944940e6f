"""The threads of the core: two matchers side by side, and async twins that never block an event loop."""

import asyncio
import contextvars
import functools
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Pool:
    """A thread pool that starts at first use, once in each process: threads do not survive a fork.

    Args:
        n_threads: At most so many at a time; more calls wait.
        name: The threads' name, for debuggers.
    """

    def __init__(self, n_threads: int, name: str) -> None:
        self._n_threads = n_threads
        self._name = name
        self._pid = 0
        self._executor: ThreadPoolExecutor | None = None

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The pool of this process."""
        if self._executor is None or self._pid != os.getpid():
            self._executor = ThreadPoolExecutor(self._n_threads, thread_name_prefix=self._name)
            self._pid = os.getpid()
        return self._executor

    def submit(self, function: Callable[[], R]) -> "Future[R]":
        """Start a call in a thread, in a copy of the caller's context (so that trace spans nest)."""
        return self.executor.submit(contextvars.copy_context().run, function)


# Their own pools: the event loop's default one is shared by the whole program, and a slow embedder would starve it.
MATCHERS = Pool(16, "kb-matcher")
INDEXING = Pool(4, "kb-indexing")
_TWINS = Pool(16, "kb-async")


def async_twin(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Make the awaitable twin of a method: it runs in a thread, with the caller's context.

    Cancelling the await lets go of the result; the thread itself runs to its end.
    """

    @functools.wraps(method)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        call = functools.partial(method, self, *args, **kwargs)
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(_TWINS.executor, context.run, call)

    twin.__name__ = f"a{method.__name__}"
    twin.__qualname__ = twin.__name__
    twin.__doc__ = f"Do as `{method.__name__}`, in a thread: the event loop goes on."
    return twin
