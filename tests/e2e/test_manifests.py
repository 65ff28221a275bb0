"""deploy/kubernetes against the schemas of Kubernetes, against itself, and against the programs that it starts."""

import json
import os
import pathlib
import subprocess

import pytest

from conftest import HERE
from demo import ROOT
from launcher import BIN

FOLDER = ROOT / "deploy/kubernetes"


@pytest.fixture(scope="module")
def read():
    python = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / "venv-kubernetes/bin/python"
    done = subprocess.run([python, "-B", HERE / "clients/manifests.py", HERE / "leaderworkerset.schema.json", *sorted(FOLDER.glob("*.yaml"))],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_kind(read, kind, file=None):
    return {o["metadata"]["name"]: o for o in read["objects"] if o["kind"] == kind and file in (None, o["file"])}


def templates(read):
    """As (file, template of a pod)."""
    for o in read["objects"]:
        if o["kind"] in ("Deployment", "StatefulSet"):
            yield o["file"], o["spec"]["template"]
        if o["kind"] == "LeaderWorkerSet":
            group = o["spec"]["leaderWorkerTemplate"]
            yield from ((o["file"], group[name]) for name in ("leaderTemplate", "workerTemplate"))


def container(template):
    return template["spec"]["containers"][0]


def test_schemas_hold(read):
    assert len(list(templates(read))) == 4 and read["errors"] == []


def test_a_wrong_manifest_would_be_found(tmp_path):
    python = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / "venv-kubernetes/bin/python"
    for name, good, bad, said in (("router", "periodSeconds: 5", "periodSecond: 5", "periodSecond"),
                                  ("shards", "serviceName: coxswain-shards", "serviceName: [a]", "serviceName"),
                                  ("prompts-and-answers", "restartPolicy: None", "restartPolicy: Never", "Never")):
        text = (FOLDER / f"{name}.yaml").read_text()
        assert text.count(good) == 1
        (tmp_path / "bad.yaml").write_text(text.replace(good, bad))
        done = subprocess.run([python, "-B", HERE / "clients/manifests.py", HERE / "leaderworkerset.schema.json", tmp_path / "bad.yaml"],
                              capture_output=True, text=True, timeout=120, check=True)
        errors = json.loads(done.stdout)["errors"]
        assert errors and said in errors[0], errors


def test_services_find_their_pods_and_ports(read):
    for service in of_kind(read, "Service").values():
        wanted = service["spec"]["selector"].items()
        pods = [t for file, t in templates(read) if file == service["file"] and wanted <= t["metadata"]["labels"].items()]
        assert len(pods) == 1, service["metadata"]["name"]
        names = {p["name"] for p in container(pods[0])["ports"]}
        assert {p["targetPort"] for p in service["spec"]["ports"]} <= names


def test_probes_volumes_and_owners_name_what_there_is(read):
    for _, template in templates(read):
        own = container(template)
        probe = own["readinessProbe"]
        assert (probe.get("tcpSocket") or probe["httpGet"])["port"] in {p["name"] for p in own["ports"]}
        assert {m["name"] for m in own["volumeMounts"]} == {v["name"] for v in template["spec"]["volumes"]}
        paths = [w.partition("=")[2] or w for w in own["command"] if "path=" in w or w.startswith("/")]
        mounts = tuple(m["mountPath"] for m in own["volumeMounts"])
        assert paths and all(p.startswith(mounts) for p in paths)
        port = next((w.rpartition(":")[2] for w in own["command"] if w.startswith("--fleet-listen=")), None)
        port = port or next(w.partition("=")[2] for w in own["command"] if w.startswith("--port="))
        assert int(port) == own["ports"][0]["containerPort"]
    for name, owner in [*of_kind(read, "Deployment").items(), *of_kind(read, "StatefulSet").items()]:
        assert owner["spec"]["selector"]["matchLabels"] == owner["spec"]["template"]["metadata"]["labels"], name


def test_the_router_may_see_what_it_asks_for(read):
    (deployment,) = of_kind(read, "Deployment").values()
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    (binding,) = of_kind(read, "RoleBinding").values()
    assert account in of_kind(read, "ServiceAccount") and [s["name"] for s in binding["subjects"]] == [account]
    role = of_kind(read, "Role")[binding["roleRef"]["name"]]
    assert role["rules"] == [{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]
    assert deployment["spec"]["replicas"] == 1 and deployment["spec"]["strategy"]["type"] == "Recreate"


def kubernetes_services(words):
    (said,) = [w.partition("=")[2] for w in words if w.startswith("--kubernetes-services=")]
    return {one.partition("=")[0] for one in said.split(",")}


def test_the_services_of_shards_are_the_routers(read):
    (deployment,) = of_kind(read, "Deployment").values()
    command = container(deployment["spec"]["template"])["command"]
    assert kubernetes_services(command) == set(of_kind(read, "Service", "shards.yaml"))
    text = (FOLDER / "prompts-and-answers.yaml").read_text()
    (said,) = [line.lstrip("# ") for line in text.splitlines() if "--kubernetes-services=" in line]
    assert kubernetes_services([said]) == set(of_kind(read, "Service", "prompts-and-answers.yaml"))
    port = next(w.partition("=")[2] for w in command if w.startswith("--kubernetes-port="))
    shards = [s for s in of_kind(read, "Service").values() if s["spec"].get("clusterIP") == "None"]
    assert len(shards) == 3 and all([p["name"] for p in s["spec"]["ports"]] == [port] for s in shards)


def test_the_programs_take_the_commands(read):
    for _, template in templates(read):
        program, *words = container(template)["command"]
        done = subprocess.run([BIN / program, *words, "--print-config"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "fleet-server-name: shard" in done.stdout
