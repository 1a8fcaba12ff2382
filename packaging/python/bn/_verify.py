# SPDX-License-Identifier: MIT
"""Receipts are checked by the program bn-verify-receipt: that of this package, else the one in PATH."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Union

from . import _library as lib
from ._library import Error, Status

Path = Union[str, "os.PathLike[str]"]
# The exit codes of all programs.
STATUS = {2: Status.ARG, 3: Status.NOT_FOUND, 4: Status.FORMAT, 5: Status.INTEGRITY, 8: Status.IO, 9: Status.UNSUPPORTED}


@dataclass(frozen=True)
class Verification:
    """What bn-verify-receipt found."""

    verified: bool
    level: str  # "none", "integrity", "consistency", "replay"
    failed: Dict[str, str]  # the rules that failed, with the reasons
    exit_code: int  # of the program: 0 verified, 1 refused, 5 a digest or signature is wrong, 9 undecided or bound to no run
    document: Dict[str, Any]  # all that the program reports

    def __bool__(self) -> bool:
        return self.verified


def verify(receipt: Path, *, replay: bool = False, models: Sequence[Path] = (), policy: Optional[Path] = None,
           public_keys: Sequence[Path] = (), max_age: Optional[str] = None, isa: Optional[str] = None,
           threads: Optional[int] = None) -> Verification:
    """Checks a receipt. replay: run its request again, and compare every token. models: files of models, when the receipt
    is not of the built-in one. policy: a file of requirements. public_keys: it has to be signed by one of them. max_age: such
    as "36h". Error: it could not be checked."""
    own = os.path.join(lib.HERE, "bn-verify-receipt")
    program = own if os.access(own, os.X_OK) else shutil.which("bn-verify-receipt")
    if program is None:
        raise Error(Status.NOT_FOUND, "bn-verify-receipt is neither in this package nor in PATH")
    options = [("path", receipt), ("policy", policy), ("max-age", max_age), ("isa", isa), ("threads", None if threads is None else str(threads)),
               *(("public-key", key) for key in public_keys), *(("model", model) for model in models)]
    command = [program, "verify", "--json", "--color=never", *["--replay"] * replay]
    command += [f"--{name}={os.fspath(value)}" for name, value in options if value is not None]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        document: Dict[str, Any] = json.loads(done.stdout)
        failed = {rule["id"]: rule["reason"] for rule in document["rules"] if rule["verdict"] == "fail"}
        verified = document["verified"] is True and done.returncode == 0
        return Verification(verified, document["level"], failed, done.returncode, document)
    except (ValueError, KeyError, TypeError):
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise Error(STATUS.get(done.returncode, Status.INTERNAL),
                    lines[0] if lines else f"bn-verify-receipt ended with {done.returncode}") from None
