# SPDX-License-Identifier: MIT
"""wheel.py PACKAGE VERSION TAG FOLDER NAME=FILE... writes a wheel, the same bytes from the same files. PACKAGE has the Python
files; each FILE is added to it, or as dist-info/licenses/NAME. SOURCE_DATE_EPOCH is the time of all of them."""
import ast
import base64
import hashlib
import os
import sys
import time
import zipfile

package, version, tag, folder, *others = sys.argv[1:]
name = os.path.basename(package)
info = f"{name}-{version}.dist-info"
members = {f"{name}/{file}": os.path.join(package, file) for file in os.listdir(package) if file.endswith((".py", ".typed"))}
for to, file in (other.split("=", 1) for other in others):
    members[to.replace("dist-info", info) if to.startswith("dist-info/") else f"{name}/{to}"] = file
contents = {to: (open(file, "rb").read(), os.access(file, os.X_OK)) for to, file in members.items()}
about = ast.get_docstring(ast.parse(contents[f"{name}/__init__.py"][0])) or ""
metadata = (f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {about.splitlines()[0]}\nLicense: MIT\n"
            f"Requires-Python: >=3.8\nDescription-Content-Type: text/plain\n\n{about}\n")
contents[f"{info}/METADATA"] = metadata.encode(), False
contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: bn\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), False
digests = {to: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() for to, (data, _) in contents.items()}
record = "".join(f"{to},sha256={digests[to]},{len(contents[to][0])}\n" for to in sorted(contents)) + f"{info}/RECORD,,\n"
contents[f"{info}/RECORD"] = record.encode(), False

stamp = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]  # a zip begins in 1980
path = os.path.join(folder, f"{name}-{version}-{tag}.whl")
with zipfile.ZipFile(path + ".new", "w") as wheel:
    for to, (data, executable) in sorted(contents.items(), key=lambda item: (item[0].startswith(info), item[0])):
        entry = zipfile.ZipInfo(to, stamp)
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
        wheel.writestr(entry, data, compresslevel=9)
os.replace(path + ".new", path)
print(path)
