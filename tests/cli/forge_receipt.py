"""Changes a receipt and seals it again, so that only the change itself is wrong. Usage: forge_receipt.py RECEIPT CODE, where
CODE changes the predicate p in Python: stat(NAME) is an entry of kernel_stats, rename(OLD, NEW) gives a kernel another name.
The forged receipt goes to standard output."""
import hashlib
import json
import sys

receipt = json.load(open(sys.argv[1]))
p = receipt["predicate"]


def stat(name):
    return next(k for k in p["measurement"]["kernel_stats"] if k["name"] == name)


def rename(old, new):
    stat(old)["name"] = new
    p["kernels"][p["kernels"].index(old)] = new


exec(sys.argv[2])
receipt.pop("receipt_sha256")
text = json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
receipt["receipt_sha256"] = hashlib.sha256(text.encode()).hexdigest()
json.dump(receipt, sys.stdout)
