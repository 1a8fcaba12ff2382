#!/usr/bin/env python3
"""Usage: sbom.py RELEASE VERSION COMMIT

Prints the bill of materials of a release as SPDX 2.3: the files of the folder RELEASE with their digests, and the packages that
they link. What is linked is read from the files: libraries in the Depends of .deb files, and the packages whose licences are in an
archive or a wheel. The licences themselves are in licences.txt; a package that is not there is an error. Versions are those
installed here, or those in the README of an archive. The time is SOURCE_DATE_EPOCH: the same files give the same bytes.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile

release, version, commit = sys.argv[1:]
OWN = f"bn-{version}.spdx.json"
licences = {}
for row in open(os.path.join(os.path.dirname(__file__), "licences.txt")):
    if row.strip() and not row.startswith("#"):
        names, licence = (part.strip() for part in row.split("|")[:2])
        licences.update({name: licence for name in names.split()})


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()


def identifier(kind, name):
    return f"SPDXRef-{kind}-" + re.sub("[^A-Za-z0-9.-]", "-", name)


def linked(name):
    """What a file links: pairs of a relationship and a package; and the versions that it names."""
    path, found, versions = os.path.join(release, name), set(), {}
    if name.endswith(".deb"):
        depends = [entry.split()[0] for entry in output("dpkg-deb", "-f", path, "Depends").split(",") if entry.strip()]
        found = {("DYNAMIC_LINK", p) for p in depends if re.match(r"lib(?!bn)(?!.*-dev$)", p)}
    elif name.endswith(".whl"):
        names = [re.search(r"/licenses/(.*)\.txt$", member) for member in zipfile.ZipFile(path).namelist()]
        found = {("STATIC_LINK", match[1]) for match in names if match}
    elif "-linux-" in name:
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                match = re.search(r"/licenses/([^/]+)$", member.name)
                if match:
                    found.add(("STATIC_LINK", match[1]))
                if member.name.endswith("/README"):
                    text = archive.extractfile(member).read().decode()
                    versions = dict(re.findall(r"^([a-z0-9.+-]+) ([0-9]\S*)$", text, re.M))
    elif "-image-" in name:
        found.add(("CONTAINS", "ca-certificates"))
    return found, versions


files, packages, relationships, sha1s = [], {}, [], []


def relate(one, kind, other):
    relationships.append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})


names = sorted(n for n in os.listdir(release) if os.path.isfile(os.path.join(release, n)))
names = [n for n in names if n not in (OWN, "SHA256SUMS") and ".provenance." not in n]
if not names:
    sys.exit(f"sbom: {release} has no files")
relate("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package-bn")
for name in names:
    data, this = open(os.path.join(release, name), "rb").read(), identifier("File", name)
    sha1s.append(hashlib.sha1(data).hexdigest())
    files.append({
        "SPDXID": this, "fileName": "./" + name, "copyrightText": "NOASSERTION", "licenseConcluded": "NOASSERTION",
        "checksums": [{"algorithm": "SHA1", "checksumValue": sha1s[-1]},
                      {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}],
    })
    relate("SPDXRef-Package-bn", "CONTAINS", this)
    found, versions = linked(name)
    for kind, package in sorted(found):
        if package not in licences:
            sys.exit(f"sbom: {name} links {package}, which packaging/licences.txt does not have")
        of = versions.get(package) or output("dpkg-query", "-W", "-f", "${Version}\n", package).split("\n")[0]
        key = identifier("Package", f"{package}-{of}")
        packages[key] = (package, of)
        relate(this, kind, key)
    source = name.replace("-image-", "-linux-") + ".gz"
    if "-image-" in name and source in names:
        relate(this, "GENERATED_FROM", identifier("File", source))

described = [{
    "SPDXID": "SPDXRef-Package-bn", "name": "bn", "versionInfo": version, "downloadLocation": "NOASSERTION",
    "filesAnalyzed": True, "licenseConcluded": "MIT", "licenseDeclared": "MIT", "licenseInfoFromFiles": ["NOASSERTION"],
    "copyrightText": "NOASSERTION", "sourceInfo": f"git commit {commit}",
    "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1("".join(sorted(sha1s)).encode()).hexdigest()},
}]
for key, (package, of) in sorted(packages.items()):
    entry = {
        "SPDXID": key, "name": package, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "supplier": "Organization: Debian", "licenseConcluded": "NOASSERTION", "licenseDeclared": licences[package],
        "copyrightText": "NOASSERTION",
    }
    if of:
        entry["versionInfo"] = of
        entry["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                  "referenceLocator": f"pkg:deb/debian/{package}@{of}"}]
    described.append(entry)

json.dump({
    "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"bn-{version}",
    "documentNamespace": f"https://bn.invalid/spdx/bn-{version}-{commit}",
    "creationInfo": {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))),
        "creators": [f"Tool: packaging/sbom.py-{version}"],
    },
    "packages": described, "files": files, "relationships": relationships,
}, sys.stdout, indent=2)
print()
