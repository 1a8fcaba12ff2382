# SPDX-License-Identifier: MIT
"""bn runs ternary (1.58-bit, BitNet) language models: generate, chat, embed, tokenize, logits, and verify receipts.

    import bn

    with bn.Model() as model:                      # the built-in model; or bn.Model("model.gguf")
        print(model.generate("ROMEO:", max_tokens=16).text)
        for piece in model.stream("ROMEO:"):
            print(piece, end="", flush=True)

The same tokens give the same bits on every machine; `Result.chain` is a digest of them. Errors are `bn.Error`.

Threads: a Model may be used by several threads; their calls wait for each other. The model computes on all cores and
releases Python's lock meanwhile. After os.fork, open the model again in the child.
"""
from ._library import VERSION as __version__, Error, Status
from ._model import Message, Model, Options, Result, Stream
from ._verify import Verification, verify

__all__ = ["Error", "Message", "Model", "Options", "Result", "Status", "Stream", "Verification", "verify", "__version__"]
