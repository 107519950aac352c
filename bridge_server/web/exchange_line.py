"""A request and its answer on one line, for people."""


def exchange_line(
    who: str,
    method: str,
    path: str,
    *,
    status: int,
    milliseconds: float,
    waited_seconds: float = 0.0,
    gist: str = "",
    path_columns: int = 0,
) -> str:
    """The line, with at least so many columns for the path. A status of 0 stands for no answer."""
    head = f"{who:<7} {method:<6} {path:<{path_columns}}"
    return f"{head}  {_outcome(status, milliseconds, waited_seconds)}  {gist}".rstrip()


def _outcome(status: int, milliseconds: float, waited_seconds: float) -> str:
    answer = f"{status}" if status else "no answer"
    time = f"waited {waited_seconds:.1f} s" if waited_seconds else f"{milliseconds:.0f} ms"
    return f"{answer}  {time}"
