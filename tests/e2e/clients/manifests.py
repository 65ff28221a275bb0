"""Reads manifests and checks them against the schemas of Kubernetes: prints {"objects": [...], "errors": [...]}.

manifests.py SCHEMA_OF_LEADERWORKERSET FILE..."""

import json
import sys

import jsonschema
import kubernetes_validate
import yaml

# The oldest release that is still looked after somewhere, and the newest that the schemas know.
VERSIONS = ["1.28", "1.37"]


def check(document, schema):
    """As (where, what)."""
    if document["kind"] == "LeaderWorkerSet":
        for error in jsonschema.Draft202012Validator(schema).iter_errors(document):
            yield error.json_path, error.message
        group = document["spec"]["leaderWorkerTemplate"]
        for name in ("leaderTemplate", "workerTemplate"):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **group[name].get("metadata", {})}, "spec": group[name]["spec"]}
            for _, what in check(pod, schema):
                yield name, what
        return
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except Exception as error:  # of several modules
            yield version, str(error)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    out = {"objects": [], "errors": []}
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            for document in yaml.safe_load_all(file):
                out["objects"].append({"file": path.rpartition("/")[2], **document})
                out["errors"] += [f"{path}: {document['kind']} {document['metadata']['name']}: {where}: {what}" for where, what in check(document, schema)]
    json.dump(out, sys.stdout)


main()
