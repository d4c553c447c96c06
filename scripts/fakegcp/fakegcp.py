#!/usr/bin/env python3
"""A Google Cloud project on this machine, for trying deployments: what gcloud and terraform's google providers ask of it
is held against Google's own discovery documents (they come with the Go module google.golang.org/api), and refused where
the platform refuses it.

It knows what goes wrong in real projects: an API that is not active yet, a service account that is not known yet, an
Eventarc agent without its role, a trigger in another place than its database, a policy written over a newer one, an
archive without Go source. With --run it builds what is uploaded and runs it (scripts/fakegcp/platform): functions count on
an embedded Firestore, triggers bring its events, jobs call, and callers are checked.

    scripts/fakegcp/fakegcp.py [options] -- COMMAND…   run a command with gcloud and terraform pointed at the project
    scripts/fakegcp/fakegcp.py [options]               print the address, and end with the standard input

The project is a-project, number 123456789012. Requests are in DIR/requests.jsonl, uploads in DIR/*.zip, and what no
discovery document allows is in DIR/violations.txt; GET /_state answers with everything there is, and PUT /_state puts
something else in its place: what nobody meant to do to a project. Requests need the token that gcloud and terraform are
given, so that no web page can send any.
"""
import argparse
import base64
import copy
import datetime
import hashlib
import http.server
import io
import json
import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request
import zipfile

PROJECT, NUMBER = "a-project", "123456789012"
TOKEN = secrets.token_hex(16)  # a web page can't know it: with --run, what is sent here is built and run
CALLER = "user:me@example.com"
AGENT = f"serviceAccount:service-{NUMBER}@gcp-sa-eventarc.iam.gserviceaccount.com"
APIS = {
    "artifactregistry": ["v1"], "billingbudgets": ["v1"], "cloudbilling": ["v1"], "cloudbuild": ["v1"], "cloudfunctions": ["v1", "v2"],
    "cloudresourcemanager": ["v1", "v3"], "cloudscheduler": ["v1"], "eventarc": ["v1"], "firebaserules": ["v1"],
    "firestore": ["v1"], "iam": ["v1"], "logging": ["v2"], "monitoring": ["v1", "v3"], "pubsub": ["v1"], "run": ["v1", "v2"],
    "serviceusage": ["v1", "v1beta1"], "storage": ["v1"],
}
BILLING = "billingAccounts/012345-6789AB-CDEF01"
# Active in every new project.
ACTIVE = ["serviceusage", "cloudapis", "storage", "storage-api", "logging", "monitoring", "servicemanagement", "bigquery", "datastore"]
# What the platform builds, with the days from which a runtime gets no support and can't be
# deployed.
RUNTIMES = {
    "go124": ("2026-10-31", "2027-04-30"), "go125": ("2026-08-31", "2027-02-28"),
    "go126": ("2027-02-28", "2027-08-31"), "go127": ("2027-08-31", "2028-02-29"),
}


# What operations answer with, by the collection.
KINDS = {
    "repositories": "devtools.artifactregistry.v1.Repository", "functions": "cloud.functions.v2.Function",
    "triggers": "cloud.eventarc.v1.Trigger", "databases": "firestore.admin.v1.Database", "indexes": "firestore.admin.v1.Index",
}
# What a patch is in, in a body that has its mask beside it.
WRAPPED = ("serviceAccount", "subscription", "release")


class Refused(Exception):
    """An error as Google's APIs answer it."""

    def __init__(self, code, status, message, details=()):
        super().__init__(message)
        self.code, self.status, self.message, self.details = code, status, message, list(details)


def invalid(message):
    return Refused(400, "INVALID_ARGUMENT", message)


def missing(name):
    return Refused(404, "NOT_FOUND", f"Resource {name} was not found")


def there_already(name):
    return Refused(409, "ALREADY_EXISTS", f"{name} already exists")


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def camel(name):
    return re.sub(r"_([a-z])", lambda m: m.group(1).upper(), name)


# How values are written, by their format or type.
SCALARS = {
    "int64": r"^-?\d+$", "uint64": r"^-?\d+$", "integer": r"^-?\d+$", "number": r"^-?[\d.eE+-]+$|^NaN$|^-?Infinity$",
    "google-duration": r"^-?\d+(\.\d+)?s$",
}


class Method:
    """One method of a discovery document, for one of its paths."""

    def __init__(self, api, version, doc, spec, path):
        self.api, self.version, self.doc, self.spec, self.id, self.verb = api, version, doc, spec, spec["id"], spec["httpMethod"]
        pattern, at = "", 0
        for m in re.finditer(r"\{(\+?)([A-Za-z0-9_]+)\}", path):
            pattern += re.escape(path[at:m.start()]) + ("(.+)" if m.group(1) else "([^/]+)")
            at = m.end()
        self.pattern = re.compile(f"^{pattern}{re.escape(path[at:])}$")

    def check_query(self, query):
        known = {**self.spec.get("parameters", {}), **self.doc.get("parameters", {}), "uploadType": {}}
        for name in query:
            if name not in known and camel(name) not in known:
                raise invalid(f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.')

    def check_body(self, body):
        if "request" in self.spec:
            self.check(self.spec["request"], body, self.spec["request"]["$ref"])
        elif body:
            raise invalid(f"{self.id} takes no body")

    def check(self, schema, value, path):
        if "$ref" in schema:
            schema = self.doc["schemas"][schema["$ref"]]
        kind = schema.get("type")
        if value is None or kind == "any":
            return
        wrong = invalid(f"Invalid value at '{path}' ({kind}), {json.dumps(value)[:200]}")
        if kind == "object":
            if not isinstance(value, dict):
                raise wrong
            properties, others = schema.get("properties", {}), schema.get("additionalProperties")
            for name, inner in value.items():
                if name in properties or camel(name) in properties:
                    self.check(properties.get(name) or properties[camel(name)], inner, f"{path}.{name}")
                elif others:
                    self.check(others, inner, f"{path}.{name}")
                elif name != "@type":
                    raise invalid(f'Invalid JSON payload received. Unknown name "{name}" at \'{path}\': Cannot find field.')
        elif kind == "array":
            if not isinstance(value, list):
                raise wrong
            for i, inner in enumerate(value):
                self.check(schema["items"], inner, f"{path}[{i}]")
        else:
            form = schema.get("format")
            pattern, text = SCALARS.get(form) or SCALARS.get(kind), kind == "string" and form not in ("int64", "uint64")
            if (pattern and not re.match(pattern, str(value)) or text and not isinstance(value, str)
                    or kind == "boolean" and not isinstance(value, bool) or value not in schema.get("enum", [value])):
                raise wrong


def discover():
    """All methods, the most specific paths first."""
    module = subprocess.check_output(["go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/api"], text=True,
                                     cwd=pathlib.Path(__file__).parent).strip()
    methods = []

    def walk(api, version, doc, node):
        for spec in node.get("methods", {}).values():
            paths = [doc.get("servicePath", "") + (spec.get("flatPath") or spec["path"])]
            paths += [p["path"].lstrip("/") for p in spec.get("mediaUpload", {}).get("protocols", {}).values()]
            methods.extend(Method(api, version, doc, spec, path) for path in paths)
        for inner in node.get("resources", {}).values():
            walk(api, version, doc, inner)

    for api, versions in APIS.items():
        for version in versions:
            doc = json.loads(pathlib.Path(module, api, version, f"{api}-api.json").read_text())
            walk(api, version, doc, doc)
    return sorted(methods, key=lambda m: -len(m.pattern.pattern))


class Call:
    """A request that a discovery document knows."""

    def __init__(self, method, path, captured, query, body, raw, headers):
        self.method, self.captured, self.query, self.body, self.raw, self.headers = method, captured, query, body, raw, headers
        self.name = urllib.parse.unquote(re.sub(r":[A-Za-z]+$", "", path.partition("/")[2]))  # the resource, without the version

    def one(self, name, default=None):
        """A parameter, however it is written."""
        return next((values[0] for key, values in self.query.items() if camel(key) == name), default)

    def does(self, ending):
        return self.method.id.endswith("." + ending)


class Platform:
    """What runs, with --run: a process of its own, which is told what the project is told."""

    def __init__(self, folder, program, builds):
        if not program:
            program, root = pathlib.Path(folder, "platform"), pathlib.Path(__file__).parent.parent.parent
            subprocess.check_call(["go", "build", "-o", program, "./scripts/fakegcp/platform"], cwd=root)
        self.process = subprocess.Popen([program, folder, builds or folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ready = json.loads(self.process.stdout.readline())
        self.address, self.firestore = ready["address"], ready["firestore"]
        self.direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def tell(self, verb, path, body=None):
        """The answer; an error is the deployment's."""
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), method=verb)
        try:
            with self.direct.open(request, timeout=600) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def must(self, verb, path, body=None):
        status, text = self.tell(verb, path, body)
        if status >= 300:
            raise Refused(400, "FAILED_PRECONDITION", text)
        return json.loads(text) if text else {}

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Project:
    """All that there is, and what the platform does with a call. delays: seconds."""

    def __init__(self, folder, address, delays, location, active, own_domain):
        self.folder, self.address, self.delays, self.own_domain = folder, address, delays, own_domain
        self.active = {f"{api}.googleapis.com": 0.0 for api in ACTIVE + active}  # :: API → since when
        self.resources = {}                                             # :: (API, name) → resource
        self.policies = {("project", PROJECT): {"version": 1, "etag": "BwAA", "bindings": [{"role": "roles/owner", "members": [CALLER]}]}}
        self.made = {}                                                  # :: account → when
        self.granted = {}                                               # :: (member, role) → when
        self.operations = {}
        self.agent = False
        self.platform = None
        if location:
            self.put("firestore", f"projects/{PROJECT}/databases/(default)", self.database({"locationId": location, "type": "FIRESTORE_NATIVE"}))

    def put(self, api, name, resource):
        self.resources[api, name] = dict(resource, name=resource.get("name", name))
        return self.resources[api, name]

    def get(self, api, name):
        if (api, name) not in self.resources:
            raise missing(name)
        return self.resources[api, name]

    def remove(self, api, name):
        self.get(api, name)
        del self.resources[api, name]
        return {}

    def names(self, api, name):
        """The names that one stands for, in which - is any part."""
        pattern = re.compile(re.escape(name).replace("/\\-", "/[^/]+") + "$")
        return [n for a, n in self.resources if a == api and pattern.match(n)]

    def under(self, api, prefix):
        return [r for (a, name), r in self.resources.items() if a == api and name.startswith(prefix)]

    def done(self, parent, response=None, kind="protobuf.Empty"):
        """An operation that has ended."""
        name = f"{parent}/operations/op-{len(self.operations) + 1}"
        response = dict(response or {})
        response.setdefault("@type", f"type.googleapis.com/google.{kind}")
        self.operations[name] = {"name": name, "done": True, "response": response}
        if "/locations/" in parent:
            self.operations[name]["metadata"] = {"@type": "type.googleapis.com/google.cloud.functions.v2.OperationMetadata", "createTime": now(), "endTime": now(),
                                                 "stages": [{"name": "BUILD", "state": "COMPLETE", "message": "built"}]}
        return self.operations[name]

    def need(self, api):
        host = f"{api}.googleapis.com"
        since = self.active.get(host)
        if since is None or since and time.time() - since < self.delays["api"]:
            raise Refused(403, "PERMISSION_DENIED", f"{host} API has not been used in project {NUMBER} before or it is disabled. Enable it by visiting "
                          f"https://console.developers.google.com/apis/api/{host}/overview?project={NUMBER} then retry. If you enabled this API recently, "
                          "wait a few minutes for the action to propagate to our systems and retry.",
                          [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com",
                            "metadata": {"consumer": f"projects/{NUMBER}", "service": host}}])

    def handle(self, call):
        if call.method.api == "serviceusage":
            return self.serviceusage(call)
        self.need(call.method.api)
        if ".operations.get" in call.method.id:
            return self.operations[call.name]
        answer = getattr(self, call.method.api, self.keep)(call)
        if answer is None:
            raise Refused(501, "UNIMPLEMENTED", f"{call.method.id} is not there; add it to fakegcp.py")
        return answer

    def keep(self, call, made=lambda resource: resource, changed=lambda resource, before: resource, gone=lambda resource: None):
        """A call of a collection whose resources are kept as they are told. made and changed are what is put of a resource, and
        gone is what else ends with it."""
        api, (collection, verb) = call.method.api, call.method.id.split(".")[-2:]
        if verb == "list":
            return {collection: [self.resources[api, n] for n in self.names(api, call.name + "/-")]}
        name = self.name_of_new(call) if verb == "create" else next(iter(self.names(api, call.name)), call.name)
        if verb == "get":
            return self.get(api, name)
        if verb == "create":
            if (api, name) in self.resources:
                raise there_already(name)
            answer = self.put(api, name, made(dict(copy.deepcopy(call.body), name=name)))
        elif verb == "patch":
            before, changes = self.get(api, name), next((call.body[key] for key in WRAPPED if isinstance(call.body.get(key), dict)), call.body)
            resource = {"name": name, **copy.deepcopy(before)}
            merge(resource, changes, call.one("updateMask") or call.body.get("updateMask") or ",".join(key for key in changes if key != "name"))
            answer = self.put(api, name, changed(resource, before))
        elif verb == "delete":
            resource = {"name": name, **self.get(api, name)}
            gone(resource)
            self.remove(api, name)
            answer = resource if collection in ("databases", "triggers") else {}
        else:
            return None
        if not call.method.spec.get("response", {}).get("$ref", "").endswith("Operation"):
            return answer
        return self.done("/".join(name.split("/")[:4]), answer, KINDS[collection] if answer else "protobuf.Empty")

    def name_of_new(self, call):
        """The name of what a call creates: its id is a parameter, or it is in the body, or it gets one."""
        parameter = next((p for p in call.method.spec.get("parameters", {}) if p.endswith("Id") and call.one(p)), None)
        said = call.one(parameter) if parameter else call.body.get("name") or str(1000 + len(self.resources))
        return said if "/" in said else f"{call.name}/{said}"

    # APIs, and who may do what.

    def serviceusage(self, call):
        def service(name):
            return {"name": f"projects/{NUMBER}/services/{name}", "config": {"name": name}, "parent": f"projects/{NUMBER}",
                    "state": "ENABLED" if name in self.active else "DISABLED"}
        last = call.name.split("/")[-1]
        if call.does("services.batchEnable") or call.does("services.enable"):
            for name in call.body["serviceIds"] if call.does("services.batchEnable") else [last]:
                self.active.setdefault(name, time.time())
            return self.done("", {"services": []}, "api.serviceusage.v1.BatchEnableServicesResponse")
        if call.does("services.get"):
            return service(last)
        if call.does("services.list"):
            return {"services": [service(name) for name in self.active]}
        if call.does("services.batchGet"):
            return {"services": [service(name.split("/")[-1]) for name in call.query.get("names", [])]}
        if call.does("generateServiceIdentity"):
            if last not in self.active:
                self.need("eventarc")
            self.agent = True
            return self.done("", {"email": AGENT.partition(":")[2], "uniqueId": "1"}, "api.serviceusage.v1beta1.ServiceIdentity")
        if ".operations.get" in call.method.id:
            return self.operations.get(call.name) or self.operations["/" + call.name]
        return None

    def known(self, email):
        return ("iam", f"projects/{PROJECT}/serviceAccounts/{email}") in self.resources and time.time() - self.made[email] >= self.delays["account"]

    def has(self, key, member, role):
        return any(b["role"] == role and member in b["members"] for b in self.policies[key]["bindings"])

    def set_policy(self, key, policy):
        if policy.get("etag") and policy["etag"] != self.policies[key]["etag"]:
            raise Refused(409, "ABORTED", "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff.")
        bindings = [b for b in policy.get("bindings", []) if b.get("members")]
        if any(b.get("condition") for b in bindings) and policy.get("version") != 3:
            raise invalid("A policy with conditions must be of version 3")
        for member in {m for b in bindings for m in b["members"]}:
            kind, _, who = member.partition(":")
            ours = kind == "serviceAccount" and who.endswith(f"@{PROJECT}.iam.gserviceaccount.com")
            if ours and not self.known(who) or member == AGENT and not self.agent:
                raise invalid(f"Service account {who} does not exist.")
        if self.own_domain and any(m in ("allUsers", "allAuthenticatedUsers") for b in bindings for m in b["members"]):
            raise Refused(400, "FAILED_PRECONDITION", "One or more users named in the policy do not belong to a permitted customer,  perhaps due to an organization policy.")
        for b in bindings:
            for member in b["members"]:
                self.granted.setdefault((member, b["role"]), time.time())
        self.policies[key] = {"version": policy.get("version", 1), "bindings": bindings,
                              "etag": hashlib.sha1(json.dumps([bindings, time.time()]).encode()).hexdigest()[:12].upper()}
        self.tell_callers(key[1])
        return self.policies[key]

    def tell_callers(self, service):
        if self.platform and ("run", service) in self.resources:
            members = {m for b in self.policies["run", service]["bindings"] if b["role"] == "roles/run.invoker" for m in b["members"]}
            self.platform.must("PUT", "/callers/" + service.split("/")[-1],
                               {"members": sorted(members), "unchecked": self.resources["run", service].get("invokerIamDisabled", False)})

    def cloudresourcemanager(self, call):
        if call.does("projects.get"):
            if call.method.version == "v1":
                return {"projectId": PROJECT, "projectNumber": NUMBER, "lifecycleState": "ACTIVE", "name": PROJECT, "createTime": now()}
            return {"name": f"projects/{NUMBER}", "projectId": PROJECT, "state": "ACTIVE", "displayName": PROJECT}
        if call.does("projects.getIamPolicy"):
            policy = copy.deepcopy(self.policies["project", PROJECT])
            if (call.body or {}).get("options", {}).get("requestedPolicyVersion") != 3 and any(b.get("condition") for b in policy["bindings"]):
                raise invalid("A policy with conditions was asked for without version 3")
            return policy
        if call.does("projects.setIamPolicy"):
            return self.set_policy(("project", PROJECT), call.body["policy"])
        if call.does("projects.testIamPermissions"):  # of its owner, or who has roles by services: roles/run.admin has all of run's
            roles = [b["role"] for b in self.policies["project", PROJECT]["bindings"] if CALLER in b["members"]]
            services = {re.split(r"[/.]", role)[1] for role in roles}
            return {"permissions": [p for p in call.body.get("permissions", []) if "roles/owner" in roles or p.split(".")[0] in services]}
        return None

    def iam(self, call):
        call.name = re.sub("^projects/-/", f"projects/{PROJECT}/", call.name)
        if call.does("serviceAccounts.create"):
            id = call.body["accountId"]
            if not re.match(r"^[a-z]([-a-z0-9]{4,28}[a-z0-9])$", id):
                raise invalid(f"account id {id}: 6 to 30 characters")
            email = f"{id}@{PROJECT}.iam.gserviceaccount.com"
            name = f"projects/{PROJECT}/serviceAccounts/{email}"
            if ("iam", name) in self.resources:
                raise there_already(f"Service account {id}")
            self.made[email] = time.time()
            return self.put("iam", name, dict(call.body.get("serviceAccount", {}), projectId=PROJECT, email=email, uniqueId=str(len(self.made)), etag="eA==", oauth2ClientId="1"))
        if call.does("serviceAccounts.enable"):
            self.get("iam", call.name).pop("disabled", None)
            return {}
        if call.does("serviceAccounts.list"):
            return {"accounts": self.under("iam", "")}
        return self.keep(call)

    # The functions and their source.

    def storage(self, call):
        names = [urllib.parse.unquote(c) for c in call.captured]
        bucket = f"b/{names[0]}" if names else ""
        call.name = bucket + "".join(f"/o/{name}" for name in names[1:])
        if call.does("buckets.insert"):
            name = "b/" + call.body["name"]
            if ("storage", name) in self.resources:
                raise Refused(409, "conflict", "Your previous request to create the named bucket succeeded and you already own it.")
            retention = {"retentionDurationSeconds": "604800", "effectiveTime": now()}
            return self.put("storage", name, dict(call.body, id=call.body["name"], kind="storage#bucket", selfLink="http://x/" + name, projectNumber=NUMBER,
                            location=call.body.get("location", "US").upper(), storageClass="STANDARD", timeCreated=now(), updated=now(), softDeletePolicy=retention))
        if call.does("buckets.list") or call.does("anywhereCaches.list"):
            return {"items": []}
        if call.does("buckets.getStorageLayout"):
            return {"kind": "storage#storageLayout", "bucket": names[0], "location": self.get("storage", bucket)["location"], "locationType": "region", "hierarchicalNamespace": {"enabled": False}}
        if call.does("objects.insert"):
            meta, content = call.body or {}, call.raw
            if call.one("uploadType") == "multipart":
                boundary = re.search(r'boundary="?([^";]+)"?', call.headers["Content-Type"]).group(1).encode()
                _, head, rest, *_ = call.raw.split(b"--" + boundary)
                meta = json.loads(head.split(b"\r\n\r\n", 1)[1])
                content = rest.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
            return self.upload(names[0], call.one("name") or meta["name"], content, meta)
        if call.does("objects.list"):
            self.get("storage", bucket)
            below, cut = f"{bucket}/o/{call.one('prefix', '')}", call.one("delimiter")
            items = self.under("storage", below)
            folders = sorted({i["name"][:i["name"].index(cut, len(below) - len(f"{bucket}/o/")) + 1] for i in items
                              if cut and cut in i["name"][len(below) - len(f"{bucket}/o/"):]})
            return {"items": [i for i in items if not any(i["name"].startswith(f) for f in folders)], "prefixes": folders}
        return self.keep(call)

    def upload(self, bucket, name, content, meta=()):
        path = pathlib.Path(self.folder, re.sub(r"[^\w.-]", "_", f"{bucket}-{name}"))
        path.write_bytes(content)
        link = f"http://x/b/{bucket}/o/{name}"
        return self.put("storage", f"b/{bucket}/o/{name}", dict(meta, name=name, bucket=bucket, id=name, size=str(len(content)), file=str(path), generation="1",
                        metageneration="1", md5Hash=base64.b64encode(hashlib.md5(content).digest()).decode(), crc32c=crc32c(content), timeCreated=now(), updated=now(),
                        selfLink=link, mediaLink=link, storageClass="STANDARD"))

    def cloudbuild(self, call):
        if call.does("getDefaultServiceAccount"):
            return {"name": call.name, "serviceAccountEmail": f"projects/{PROJECT}/serviceAccounts/{NUMBER}-compute@developer.gserviceaccount.com"}
        return None

    def images(self, name):
        """The key of a repository's policy. One of another project is there, and so is the platform's own."""
        if name.startswith(f"projects/{PROJECT}/") and not name.endswith("/gcf-artifacts"):
            self.get("artifactregistry", name)
        self.policies.setdefault(("artifactregistry", name), {"version": 1, "etag": "BwA0AAAA", "bindings": []})
        return "artifactregistry", name

    def artifactregistry(self, call):
        if call.does("repositories.getIamPolicy"):
            return copy.deepcopy(self.policies[self.images(call.name)])
        if call.does("repositories.setIamPolicy"):
            return self.set_policy(self.images(call.name), call.body["policy"])
        return self.keep(call, made=lambda repository: dict(repository, createTime=now(), updateTime=now(), mode="STANDARD_REPOSITORY", sizeBytes="0"),
                         gone=lambda repository: self.policies.pop(("artifactregistry", repository["name"]), None))

    def cloudfunctions(self, call):
        if call.does("runtimes.list"):
            def date(day):
                return dict(zip(("year", "month", "day"), map(int, day.split("-"))))
            return {"runtimes": [{"name": name, "displayName": name, "stage": "GA", "environment": "GEN_2", "deprecationDate": date(a), "decommissionDate": date(b)}
                                 for name, (a, b) in RUNTIMES.items()]}
        if call.does("generateUploadUrl"):
            name = f"upload-{len(self.resources)}-{time.time_ns()}.zip"
            return {"uploadUrl": f"{self.address}/_upload/{TOKEN}/{name}", "storageSource": {"bucket": "gcf-v2-uploads", "object": name}}
        return self.keep(call, made=lambda function: self.deploy(dict(function, createTime=now())), changed=lambda function, _: self.deploy(function), gone=self.undeploy)

    def undeploy(self, function):
        service = function["serviceConfig"]["service"]
        trigger = self.resources.pop(("eventarc", function.get("eventTrigger", {}).get("trigger")), None)
        if trigger:
            self.resources.pop(("pubsub", trigger["transport"]["pubsub"]["subscription"]), None)
        self.resources.pop(("run", service), None)
        self.policies.pop(("run", service), None)
        if self.platform:
            self.platform.must("DELETE", "/triggers/" + service.split("/")[-1])
            self.platform.must("DELETE", "/services/" + service.split("/")[-1])

    def deploy(self, function):
        build, service, trigger = function["buildConfig"], function.setdefault("serviceConfig", {}), function.get("eventTrigger")
        if build.get("runtime") not in RUNTIMES:
            raise invalid(f"Runtime {build.get('runtime')} is not supported on GCF Gen2")
        builder = (build.get("serviceAccount") or "").split("/")[-1]
        for email in filter(None, [builder, service.get("serviceAccountEmail"), (trigger or {}).get("serviceAccountEmail")]):
            if not self.known(email):
                raise invalid(f"Service account {email} does not exist.")
        repository = build.get("dockerRepository") or f"projects/{PROJECT}/locations/{function['name'].split('/')[3]}/repositories/gcf-artifacts"
        for key, role in [(PROJECT, "roles/logging.logWriter"), (repository, "roles/artifactregistry.writer"), (PROJECT, "roles/storage.objectViewer")]:
            at = ("project", PROJECT) if key == PROJECT else self.images(key)
            if builder and not any(self.has(place, f"serviceAccount:{builder}", role) for place in (at, ("project", PROJECT))):
                raise Refused(403, "PERMISSION_DENIED", "Build failed with status: FAILURE. Could not build the function due to a missing permission on the "
                              f"build service account. ({builder} does not have {role}.)")
        if service.get("maxInstanceRequestConcurrency", 1) > 1 and float(service.get("availableCpu") or 0) < 1:
            raise invalid("Concurrency needs 1 CPU")
        self.build(build["source"]["storageSource"])
        if trigger:
            self.trigger(trigger)
        region, short = function["name"].split("/")[3], function["name"].split("/")[-1]
        name = f"projects/{PROJECT}/locations/{region}/services/{short}"
        resources = self.fits({"limits": {"cpu": service.get("availableCpu") or "0.1666", "memory": service.get("availableMemory") or "256Mi"},
                               "cpuIdle": self.idle(self.resources.get(("run", name)))}, f"Could not update Cloud Run service {name}. ")
        self.keep_source(build["source"]["storageSource"], region, short)
        function.update(state="ACTIVE", environment="GEN_2", updateTime=now(), url=f"https://{region}-{PROJECT}.cloudfunctions.net/{short}")
        uri = f"https://{short}-abcdef-uc.a.run.app"
        if self.platform:
            source = build["source"]["storageSource"]
            archive = self.get("storage", f"b/{source['bucket']}/o/{source['object']}")["file"]
            uri = self.platform.must("PUT", "/services/" + short, {"function": function, "archive": archive})["uri"]
        service.update(service=name, uri=uri, revision=f"{short}-00001")
        for key, value in {"ingressSettings": "ALLOW_ALL", "allTrafficOnLatestRevision": True, "maxInstanceRequestConcurrency": 1}.items():
            service.setdefault(key, value)
        service["environmentVariables"] = dict(service.get("environmentVariables", {}), LOG_EXECUTION_ID="true")
        build.update(build=f"projects/{NUMBER}/locations/{region}/builds/1")
        for key, value in {"dockerRepository": repository, "dockerRegistry": "ARTIFACT_REGISTRY",
                           "automaticUpdatePolicy": {}}.items():
            build.setdefault(key, value)
        if trigger:
            trigger.update(trigger=f"projects/{PROJECT}/locations/{trigger['triggerRegion']}/triggers/{short}-123456", pubsubTopic=f"projects/{PROJECT}/topics/eventarc-x")
            self.own_trigger(trigger, region, short)
        run = self.resources.setdefault(("run", name), {"name": name, "uri": service["uri"], "template": {"containers": [{"image": "image"}]}})
        run["template"]["containers"][0]["resources"] = resources
        self.policies.setdefault(("run", name), {"version": 1, "etag": "BwA0AAAA", "bindings": []})
        self.tell_callers(name)
        if trigger:
            self.watch(short, short, trigger["serviceAccountEmail"], trigger["eventFilters"], trigger.get("retryPolicy") == "RETRY_POLICY_RETRY", 600)
        return function

    def own_trigger(self, trigger, region, short):
        """A function's trigger is Eventarc's as well, with a subscription."""
        name = trigger["trigger"]
        there = self.resources.get(("eventarc", name), {"createTime": now()})
        self.put("eventarc", name, {
            "name": name, "uid": "u", "etag": "e", "createTime": there["createTime"], "updateTime": now(), "serviceAccount": trigger["serviceAccountEmail"],
            "eventFilters": [{"attribute": "type", "value": trigger["eventType"]}, *trigger["eventFilters"]],
            "destination": {"cloudRun": {"service": short, "region": region}},
            "transport": {"pubsub": {"topic": trigger["pubsubTopic"], "subscription": self.subscription(name, 600)}}})

    def subscription(self, trigger, deadline):
        """The subscription of a trigger, which is made where it isn't there; it ends when Pub/Sub's own default says."""
        name = f"projects/{PROJECT}/subscriptions/eventarc-{trigger.split('/')[3]}-{trigger.split('/')[-1]}-sub-1"
        if ("pubsub", name) not in self.resources:
            self.put("pubsub", name, {"ackDeadlineSeconds": deadline, "topic": f"projects/{PROJECT}/topics/eventarc-x", "messageRetentionDuration": "86400s", "expirationPolicy": {"ttl": "2678400s"},
                                      "pushConfig": {"pushEndpoint": "https://x.a.run.app"}, "retryPolicy": {"minimumBackoff": "10s", "maximumBackoff": "600s"}, "state": "ACTIVE"})
        return name

    def keep_source(self, source, region, short):
        """Puts what was uploaded for a function where its source is kept, and stays when the function goes."""
        if source["bucket"] == "gcf-v2-uploads":
            uploaded = self.resources.pop(("storage", f"b/gcf-v2-uploads/o/{source['object']}"))
            bucket, name = f"gcf-v2-sources-{NUMBER}-{region}", f"{short}/function-source.zip"
            self.put("storage", f"b/{bucket}", {"name": bucket, "id": bucket, "kind": "storage#bucket", "location": region.upper(), "timeCreated": now(), "updated": now()})
            link = f"http://x/b/{bucket}/o/{name}"
            self.put("storage", f"b/{bucket}/o/{name}", dict(uploaded, name=name, bucket=bucket, id=name, selfLink=link, mediaLink=link))
            source.update(bucket=bucket, object=name)

    @staticmethod
    def idle(service):
        """Whether a service's instances have a CPU during requests alone, and are billed by them; kept by a redeployment."""
        return service is None or service["template"]["containers"][0]["resources"].get("cpuIdle", False)

    @staticmethod
    def fits(resources, where=""):
        """The resources of an instance, unless they are too small to be billed by the instance."""
        megabytes = int(resources["limits"]["memory"][:-2]) * {"Mi": 1, "Gi": 1024}[resources["limits"]["memory"][-2:]]
        if not resources["cpuIdle"] and float(resources["limits"]["cpu"]) < 1:
            raise invalid(f"{where}spec.template.spec.containers.resources.limits.cpu: Invalid value specified for cpu. Total cpu < 1 is not supported with cpu always allocated (unthrottled).")
        if not resources["cpuIdle"] and megabytes < 512:
            raise invalid(f"{where}spec.template.spec.containers.resources.limits.memory: Invalid value specified for memory. Total memory < 512 Mi is not supported with cpu always allocated (unthrottled).")
        return resources

    def watch(self, name, service, account, filters, retry, deadline):
        """Has a trigger's events brought to a service."""
        if self.platform:
            values = {f["attribute"]: f["value"] for f in filters}
            self.platform.must("PUT", "/triggers/" + name, {"service": service, "account": account.split("/")[-1], "database": values["database"],
                                                            "pattern": values["document"], "retry": retry, "ackDeadline": deadline})

    def build(self, source):
        """What the buildpack says first: without Go source beside go.mod there is nothing to build."""
        archive = self.get("storage", f"b/{source['bucket']}/o/{source['object']}")["file"]
        try:
            files = zipfile.ZipFile(io.BytesIO(pathlib.Path(archive).read_bytes())).namelist()
        except zipfile.BadZipFile as e:
            raise invalid(f"Build failed: the source is no zip file: {e}") from e
        if "go.mod" not in files or not any(re.match(r"^[^/]+\.go$", f) for f in files):
            raise invalid(f"Build failed: unable to find Go package: {len(files)} files, and not go.mod with Go source beside it")

    def trigger(self, trigger):
        filters = {f["attribute"]: f for f in trigger.get("eventFilters", [])}
        if "database" not in filters or set(filters) - {"database", "namespace", "document"}:
            raise invalid(f"Event filters {sorted(filters)} are not those of Firestore")
        database = self.get("firestore", f"projects/{PROJECT}/databases/{filters['database']['value']}")
        if trigger.get("triggerRegion") != database["locationId"]:
            raise invalid(f"The trigger's location {trigger.get('triggerRegion')} is not the database's, {database['locationId']}")
        document = filters.get("document", {})
        if "{" in document.get("value", "") and document.get("operator") != "match-path-pattern":
            raise invalid("A pattern of documents takes match-path-pattern")
        role = "roles/eventarc.serviceAgent"
        if not self.has(("project", PROJECT), AGENT, role) or time.time() - self.granted[AGENT, role] < self.delays["agent"]:
            raise Refused(400, "FAILED_PRECONDITION", 'Validation failed for trigger: Invalid resource state for "": Permission denied while using the Eventarc Service '
                          "Agent. If you recently started to use Eventarc, it may take a few minutes before all necessary permissions are propagated to the Service Agent.")

    def eventarc(self, call):
        return self.keep(call, made=self.bring, gone=self.bring_no_more)

    def bring(self, trigger):
        """A trigger that is no function's."""
        name = trigger["name"]
        if not re.match(r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", name.split("/")[-1]):
            raise invalid(f"The trigger's id {name.split('/')[-1]} is not one")
        self.trigger({"triggerRegion": name.split("/")[3], "eventFilters": [f for f in trigger["eventFilters"] if f["attribute"] != "type"]})
        run, account = trigger["destination"]["cloudRun"], trigger["serviceAccount"].split("/")[-1]
        self.get("run", f"projects/{PROJECT}/locations/{run.get('region')}/services/{run['service']}")
        if not self.known(account) or not self.has(("project", PROJECT), f"serviceAccount:{account}", "roles/eventarc.eventReceiver"):
            raise Refused(403, "PERMISSION_DENIED", f'Permission "eventarc.events.receiveEvent" denied on "{account}"')
        self.watch(name.split("/")[-1], run["service"], account, trigger["eventFilters"], True, 10)
        return dict(trigger, uid="u", etag="e", createTime=now(), updateTime=now(),
                    transport={"pubsub": {"topic": f"projects/{PROJECT}/topics/eventarc-x", "subscription": self.subscription(name, 10)}})

    def bring_no_more(self, trigger):
        self.resources.pop(("pubsub", trigger["transport"]["pubsub"]["subscription"]), None)
        if self.platform:
            self.platform.must("DELETE", "/triggers/" + trigger["name"].split("/")[-1])

    def pubsub(self, call):
        return self.keep(call, changed=self.wait)

    def wait(self, subscription, _):
        """Has events wait for their answers as their subscription says now."""
        for trigger in self.under("eventarc", ""):
            if trigger.get("transport", {}).get("pubsub", {}).get("subscription") == subscription["name"]:
                service = trigger["destination"]["cloudRun"]["service"]  # whose name its own trigger goes by
                own = ("cloudfunctions", "/".join(["projects", PROJECT, "locations", trigger["destination"]["cloudRun"]["region"], "functions", service]))
                is_own = self.resources.get(own, {}).get("eventTrigger", {}).get("trigger") == trigger["name"]
                self.watch(service if is_own else trigger["name"].split("/")[-1], service, trigger["serviceAccount"],
                           trigger["eventFilters"], True, subscription["ackDeadlineSeconds"])
        return subscription

    def run(self, call):
        if call.method.id.startswith("run.namespaces."):
            return self.knative(call)
        if call.does("services.get") and call.method.version == "v2":
            return self.get("run", call.name)
        if call.does("getIamPolicy"):
            self.get("run", call.name)
            return self.policies["run", call.name]
        if call.does("setIamPolicy"):
            self.get("run", call.name)
            return self.set_policy(("run", call.name), call.body["policy"])
        return None

    def knative(self, call):
        """A service, and its one revision, as gcloud run sees them."""
        named = re.sub(r"(/revisions/.*)-00001$", r"\1", call.name)
        service = next((s for s in self.under("run", "") if s["name"].endswith("/" + named.split("/")[-1])), None)
        if service is None:
            raise missing(call.name)
        disabled, throttling = "run.googleapis.com/invoker-iam-disabled", "run.googleapis.com/cpu-throttling"
        container = service["template"]["containers"][0]
        if call.does("replaceService"):
            said = call.body["spec"]["template"]["metadata"].get("annotations", {}).get(throttling, "true")
            container["resources"] = self.fits(dict(container["resources"], cpuIdle=said.lower() == "true"))
            if all(t.get("latestRevision") for t in call.body["spec"].get("traffic", [])):
                service.pop("traffic", None)
            service["invokerIamDisabled"] = call.body["metadata"].get("annotations", {}).get(disabled, "").lower() == "true"
            self.tell_callers(service["name"])
        elif not call.does("services.get") and not call.does("revisions.get"):
            return None
        short, region = service["name"].split("/")[-1], service["name"].split("/")[3]
        traffic = [{"revisionName": t["revision"], "percent": t["percent"]} for t in service.get("traffic", [])] or [{"latestRevision": True, "percent": 100}]
        ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ConfigurationsReady", "RoutesReady")]
        template = {"metadata": {"annotations": {throttling: str(container["resources"]["cpuIdle"]).lower()}},
                    "spec": {"containers": [{"image": container["image"], "resources": {"limits": container["resources"]["limits"]}}]}}
        if call.does("revisions.get"):
            metadata = dict(template["metadata"], name=f"{short}-00001", namespace=NUMBER, labels={"cloud.googleapis.com/location": region})
            return {"apiVersion": "serving.knative.dev/v1", "kind": "Revision", "metadata": metadata, "spec": template["spec"], "status": {"conditions": ready[:1]}}
        return {
            "apiVersion": "serving.knative.dev/v1", "kind": "Service",
            "metadata": {"name": short, "namespace": NUMBER, "generation": 1, "resourceVersion": "AAA", "labels": {"cloud.googleapis.com/location": region},
                         "annotations": {disabled: "true"} if service.get("invokerIamDisabled") else {}},
            "spec": {"template": template, "traffic": traffic},
            "status": {"observedGeneration": 1, "conditions": ready, "latestReadyRevisionName": f"{short}-00001", "latestCreatedRevisionName": f"{short}-00001", "url": service["uri"],
                       "traffic": [dict(t, revisionName=t.get("revisionName", f"{short}-00001")) for t in traffic]},
        }

    # The database and its rules.

    def database(self, body):
        edition = body.get("databaseEdition", "STANDARD")
        return dict(body, uid="u", etag="ZQ==", createTime=now(), updateTime=now(), databaseEdition=edition,
                    concurrencyMode=body.get("concurrencyMode", "OPTIMISTIC" if edition == "ENTERPRISE" else "PESSIMISTIC"),
                    appEngineIntegrationMode="DISABLED", pointInTimeRecoveryEnablement="POINT_IN_TIME_RECOVERY_DISABLED",
                    versionRetentionPeriod="3600s", earliestVersionTime=now(), keyPrefix="")

    def drop(self, database):
        if database.get("deleteProtectionState") == "DELETE_PROTECTION_ENABLED":
            raise Refused(400, "FAILED_PRECONDITION", f"Database {database['name']} is protected against deletion")
        for api, name in list(self.resources):
            if api == "firestore" and name.startswith(database["name"] + "/"):
                del self.resources[api, name]

    def firestore(self, call):
        if "/collectionGroups/" not in call.name:
            return self.keep(call, made=self.database, gone=self.drop)
        database = call.name.partition("/collectionGroups/")[0]
        if call.does("fields.list"):
            fields = [f for f in self.under("firestore", database + "/collectionGroups/") if "/fields/" in f["name"]]
            if "ttlConfig" in call.one("filter", ""):
                return {"fields": [f for f in fields if "ttlConfig" in f]}
            return {"fields": [f for f in fields if "usesAncestorConfig" not in f["indexConfig"]]}
        enterprise = self.get("firestore", database)["databaseEdition"] == "ENTERPRISE"
        if call.does("indexes.create"):
            if len(call.body["fields"]) == 1 and not enterprise:
                raise Refused(400, "FAILED_PRECONDITION", "this index is not necessary, configure using single field index controls")
            # Every index ends with the document's name.
            fields = call.body["fields"] + [{"fieldPath": "__name__", "order": call.body["fields"][-1].get("order", "ASCENDING")}]
            if any(i["queryScope"] == call.body["queryScope"] and i["fields"] == fields for i in self.under("firestore", call.name + "/")):
                raise there_already(call.name)
            operation = self.keep(call, made=lambda index: dict(index, fields=fields, state="READY"))
            operation["metadata"] = {"@type": "type.googleapis.com/google.firestore.admin.v1.IndexOperationMetadata", "index": operation["response"]["name"], "state": "SUCCESSFUL"}
            return operation
        if not call.method.id.startswith("firestore.projects.databases.collectionGroups.fields."):
            return self.keep(call)
        index = {"queryScope": "COLLECTION", "fields": [{"fieldPath": call.name.split("/")[-1], "order": "ASCENDING"}], "state": "READY"}
        default = {"usesAncestorConfig": True, "ancestorField": f"{database}/collectionGroups/__default__/fields/*", "indexes": [] if enterprise else [index]}
        field = self.resources.get(("firestore", call.name), {"name": call.name, "indexConfig": default})
        if call.does("fields.get"):
            return field
        if call.does("fields.patch"):
            if enterprise and call.one("updateMask") != "ttlConfig":  # terraform-provider-google#25331
                raise Refused(400, "FAILED_PRECONDITION", "Enterprise databases are not allowed to update field configuration other than TTL.")
            for key in map(camel, (call.one("updateMask") or "indexConfig,ttlConfig").split(",")):
                wanted = (call.body or {}).get(key)
                field.pop(key, None)
                if key == "indexConfig":
                    field[key] = default if wanted is None else {"indexes": wanted.get("indexes", [])}
                elif wanted is not None:
                    field[key] = {"state": "ACTIVE"}
            if "usesAncestorConfig" in field["indexConfig"] and "ttlConfig" not in field:  # as every other one
                self.resources.pop(("firestore", call.name), None)
                return self.done(database, field, "firestore.admin.v1.Field")
            return self.done(database, self.put("firestore", call.name, field), "firestore.admin.v1.Field")
        return None

    def firebaserules(self, call):
        return self.keep(call, made=lambda resource: dict(resource, createTime=now(), updateTime=now()))

    # What runs on a schedule, and what is watched.

    def cloudscheduler(self, call):
        if call.does("jobs.resume") or call.does("jobs.pause"):
            self.get("cloudscheduler", call.name)["state"] = "ENABLED" if call.does("jobs.resume") else "PAUSED"
            return self.get("cloudscheduler", call.name)
        if call.does("jobs.run"):
            job = self.get("cloudscheduler", call.name)
            job["lastAttemptTime"] = now()
            if self.platform:
                target = job["httpTarget"]
                code, text = self.platform.tell("POST", "/call", {"uri": target["uri"], "method": target.get("httpMethod", "POST"), "account": target["oidcToken"]["serviceAccountEmail"]})
                job["status"], job["answer"] = ({} if code < 300 else {"code": 13}), text
            return {key: value for key, value in job.items() if key != "answer"}
        return self.keep(call, made=self.job)

    def job(self, job):
        if not self.known(job["httpTarget"]["oidcToken"]["serviceAccountEmail"]):
            raise missing("service account")
        return dict(job, state="ENABLED", userUpdateTime=now(), scheduleTime=now())

    def cloudbilling(self, call):
        info = f"projects/{PROJECT}/billingInfo"
        billed = {"name": info, "projectId": PROJECT, "billingAccountName": BILLING, "billingEnabled": True}
        if call.does("projects.getBillingInfo"):
            return self.resources.get(("cloudbilling", info), billed)
        if call.does("projects.updateBillingInfo"):
            return self.put("cloudbilling", info, dict(billed, billingAccountName=call.body["billingAccountName"]))
        if call.does("billingAccounts.list"):
            return {"billingAccounts": [{"name": BILLING, "open": True, "displayName": "ours"}]}
        return None

    def billingbudgets(self, call):
        if not call.name.startswith(BILLING):
            raise missing(call.name)
        return self.keep(call, made=lambda budget: dict(budget, etag="e1"))

    def logging(self, call):
        if call.does("entries.list"):  # of requests, where something runs
            service = re.search(r'service_name="([^"]+)"', call.body.get("filter", ""))
            since = re.search(r'timestamp>="([^"]+)"', call.body.get("filter", ""))
            if not self.platform or not service:
                return {"entries": []}
            return {"entries": [dict(e, logName=f"projects/{PROJECT}/logs/run.googleapis.com%2Frequests", insertId=str(i))
                                for i, e in enumerate(self.platform.must("GET", "/requests/" + service.group(1)) or []) if not since or e["timestamp"] >= since.group(1)]}
        exclusions = f"projects/{PROJECT}/exclusions/"  # which are the default sink's
        if call.name.endswith("/sinks/_Default"):
            if not call.does("sinks.get"):
                given = {exclusions + e["name"]: e for e in call.body.get("exclusions", [])}
                if len(given) < len(call.body.get("exclusions", [])):
                    raise invalid(f"Exclusions {list(given)} have one name twice")
                for e in self.under("logging", exclusions):
                    self.remove("logging", exclusions + e["name"])
                for name, exclusion in given.items():
                    self.put("logging", name, exclusion)
            return {"name": "_Default", "destination": f"logging.googleapis.com/projects/{PROJECT}/locations/global/buckets/_Default",
                    "filter": "NOT LOG_ID(\"externalaudit\")", "exclusions": self.under("logging", exclusions)}
        if call.does("metrics.update"):
            return self.put("logging", call.name, call.body)
        return self.keep(call, made=lambda resource: dict(resource, name=resource["name"].split("/")[-1]))  # as the API has it

    @staticmethod
    def watched(resource):
        """An alert policy, or a dashboard, as it comes to be kept."""
        if "/dashboards/" in resource["name"]:
            return dict(resource, etag=secrets.token_hex(4))
        for i, condition in enumerate(resource.get("conditions", [])):
            condition["name"] = f"{resource['name']}/conditions/{i}"
        return {"enabled": True, "creationRecord": {"mutateTime": now(), "mutatedBy": "x"}, **resource}

    def monitoring(self, call):
        if call.does("timeSeries.list"):
            return {"timeSeries": [s for s in self.under("timeSeries", "") if f'"{s["metric"]["type"]}"' in call.one("filter")]}
        call.name = call.name.replace(f"projects/{PROJECT}/dashboards", f"projects/{NUMBER}/dashboards")

        def changed(resource, before):
            if call.does("dashboards.patch") and call.body.get("etag") != before["etag"]:
                raise Refused(409, "ABORTED", f"etag {call.body.get('etag')} is not {before['etag']}")
            if call.does("alertPolicies.patch") and not call.one("updateMask"):  # "the supplied alerting policy replaces the existing policy"
                resource = dict(call.body, name=before["name"], creationRecord=before["creationRecord"])
            return self.watched(resource)
        return self.keep(call, made=self.watched, changed=changed)


def crc32c(content):
    """The checksum that Cloud Storage gives of an object."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ CRC32C[(crc ^ byte) & 0xFF]
    return base64.b64encode((crc ^ 0xFFFFFFFF).to_bytes(4, "big")).decode()


def crc32c_of(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC32C = [crc32c_of(byte) for byte in range(256)]


def merge(resource, changes, mask):
    """Applies an update with a field mask."""
    for path in mask.split(","):
        to, of = resource, changes
        *way, last = map(camel, path.split("."))
        for step in way:
            to, of = to.setdefault(step, {}), (of or {}).get(step, {})
        if last in (of or {}):
            to[last] = of[last]
        else:
            to.pop(last, None)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    project = methods = lock = requests = violations = None

    def log_message(self, *_):
        pass

    def reply(self, code, body):
        self.send(json.dumps(body).encode(), code, "application/json")

    def send(self, content, code=200, kind="application/octet-stream"):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def payload(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        raw = b""
        while size := int(self.rfile.readline(), 16):
            raw += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return raw

    def answer(self):
        raw, url = self.payload(), urllib.parse.urlsplit(self.path)
        path, signed = url.path.lstrip("/"), f"_upload/{TOKEN}/"  # gcloud sends no token to a signed URL
        if not path.startswith(signed) and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.reply(401, {"error": {"code": 401, "message": "want the token of the printed environment", "status": "UNAUTHENTICATED"}})
        with self.lock:
            if path == "_state":
                p = self.project
                if self.command == "PUT":
                    body = json.loads(raw)
                    p.resources = {tuple(key.split(" ", 1)): r for key, r in body["resources"].items()}
                    p.policies = {tuple(key.split(" ", 1)): r for key, r in body["policies"].items()}
                    p.active = {api: p.active.get(api, 0.0) for api in body["active"]}
                return self.reply(200, {"resources": {" ".join(k): r for k, r in p.resources.items()}, "policies": {" ".join(k): r for k, r in p.policies.items()}, "active": sorted(p.active)})
            if ("storage", urllib.parse.unquote(path)) in self.project.resources:  # what an object's mediaLink names
                return self.send(pathlib.Path(self.project.get("storage", urllib.parse.unquote(path))["file"]).read_bytes())
            if path.startswith(signed):
                self.project.upload("gcf-v2-uploads", path.removeprefix(signed), raw)
                return self.reply(200, {})
            return self.call(path, url.query, raw)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def call(self, path, query, raw):
        entry = {"method": self.command, "path": path, "query": query, "body": None}
        try:
            call = self.find(path, urllib.parse.parse_qs(query, keep_blank_values=True), raw)
            entry["id"], entry["body"] = call.method.id, call.body
            answer = self.project.handle(call)
            entry["status"] = 200
            self.reply(200, answer)
        except Refused as e:
            entry["status"], entry["error"] = e.code, e.message
            reason = "accessNotConfigured" if e.details else {403: "forbidden", 404: "notFound", 409: "alreadyExists"}.get(e.code, "invalid")
            self.reply(e.code, {"error": {"code": e.code, "message": e.message, "status": e.status, "details": e.details,
                                          "errors": [{"message": e.message, "reason": reason, "domain": "global"}]}})
        except ConnectionError:  # the caller is gone, in the middle of its answer
            raise
        except Exception as e:  # ours, not the caller's
            entry["status"], entry["error"] = 500, traceback.format_exc()
            self.violate(f"{self.command} {path}: fakegcp.py failed: {e!r}")
            self.reply(500, {"error": {"code": 500, "message": repr(e), "status": "INTERNAL"}})
        finally:
            entry["time"] = time.time()
            print(json.dumps(entry), file=self.requests, flush=True)

    def find(self, path, query, raw):
        path = path.rstrip("/")
        path = path.replace("upload/storage/", "storage/upload/storage/") if path.startswith("upload/") else path
        if "generateServiceIdentity" in path:
            path = path.replace("serviceusage/v1/", "serviceusage/v1beta1/")
        api, _, rest = path.partition("/")
        api = re.sub(r"^.*-(run)$", r"\1", api)  # gcloud puts the region before the name
        rest = rest.lstrip("/") if api in ("logging", "storage") else urllib.parse.unquote(rest.lstrip("/"))
        for method in self.methods:
            match = method.api == api and method.verb == self.command and method.pattern.match(rest)
            if match:
                break
        else:
            self.violate(f"{self.command} {path}: no discovery document has such a method")
            raise missing(path)
        upload = "uploadType" in query
        call = Call(method, rest, match.groups(), query, json.loads(raw) if raw and not upload else None, raw, self.headers)
        try:
            method.check_query(query)
            if not upload:
                method.check_body(call.body)
        except Refused as e:
            self.violate(f"{method.id}: {e.message}")
            raise
        return call

    def violate(self, what):
        print(what, file=self.violations, flush=True)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()  # of one who is gone nothing is said


def environment(address, folder):
    """What points gcloud and terraform's providers at an address."""
    token = pathlib.Path(folder, "token")
    token.write_text(TOKEN)
    env = {
        "CLOUDSDK_CONFIG": str(pathlib.Path(folder, "gcloud")), "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true", "CLOUDSDK_CORE_DISABLE_FILE_LOGGING": "true",
        "CLOUDSDK_CORE_SURVEY_DISABLE_PROMPTS": "true", "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN,
    }
    # Cloud Run's commands put the region before the host's name, which is none then: as a proxy we
    # are asked for it all the same.
    env.update(CLOUDSDK_PROXY_TYPE="http", CLOUDSDK_PROXY_ADDRESS="127.0.0.1", CLOUDSDK_PROXY_PORT=address.rpartition(":")[2])
    for api in APIS:
        env[f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}"] = f"{address}/{api}/"
    env["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"] = f"{address}/storage/storage/v1/"
    for name, path in {
        "ARTIFACT_REGISTRY": "artifactregistry/v1", "BILLING": "billingbudgets/v1", "BILLING_BUDGETS": "billingbudgets/v1", "CLOUDFUNCTIONS2": "cloudfunctions/v2", "CLOUD_BILLING": "cloudbilling/v1", "CLOUD_RUN_V2": "run/v2", "CLOUD_SCHEDULER": "cloudscheduler/v1", "EVENTARC": "eventarc/v1",
        "FIREBASERULES": "firebaserules/v1", "FIRESTORE": "firestore/v1", "IAM": "iam/v1", "IAM_BETA": "iam/v1", "LOGGING": "logging/v2",
        "MONITORING": "monitoring", "RESOURCE_MANAGER": "cloudresourcemanager/v1", "RESOURCE_MANAGER_V3": "cloudresourcemanager/v3",
        "SERVICE_USAGE": "serviceusage/v1", "STORAGE": "storage/storage/v1",
    }.items():
        env[f"GOOGLE_{name}_CUSTOM_ENDPOINT"] = f"{address}/{path}/"
    return env


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default="", help="where requests and uploads are kept (default: a new folder)")
    parser.add_argument("--api-delay", type=float, default=0, metavar="S", help="seconds until an API that was turned on answers")
    parser.add_argument("--account-delay", type=float, default=0, metavar="S", help="seconds until a new service account is known")
    parser.add_argument("--agent-delay", type=float, default=0, metavar="S", help="seconds until the role of Eventarc's agent counts")
    parser.add_argument("--active", action="append", default=[], metavar="API", help="an API that was turned on long ago, such as cloudresourcemanager")
    parser.add_argument("--own-domain", action="store_true", help="the organisation shares with its own domain only, as those that are made today do: allUsers is refused")
    parser.add_argument("--run", action="store_true", help="build and run what is deployed")
    parser.add_argument("--platform", default="", metavar="PROGRAM", help="scripts/fakegcp/platform, where it was built before")
    parser.add_argument("--builds", default="", metavar="DIR", help="where what is deployed is built, once for all projects (default: the folder)")
    parser.add_argument("--database", default="", metavar="LOCATION", help="a (default) database is there already")
    parser.add_argument("command", nargs="*", metavar="COMMAND")
    args = parser.parse_args()
    folder = pathlib.Path(args.dir or tempfile.mkdtemp(prefix="fakegcp-"))
    folder.mkdir(parents=True, exist_ok=True)

    server = Server(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    Handler.project = Project(folder, address, {"api": args.api_delay, "account": args.account_delay, "agent": args.agent_delay}, args.database, args.active, args.own_domain)
    Handler.methods, Handler.lock = discover(), threading.RLock()
    Handler.requests, Handler.violations = open(folder / "requests.jsonl", "a"), open(folder / "violations.txt", "a")
    platform = Handler.project.platform = Platform(folder, args.platform, args.builds) if args.run else None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = environment(address, folder)
    try:
        if not args.command:
            print(json.dumps({"address": address, "environment": env, "firestore": platform.firestore if platform else ""}), flush=True)
            sys.stdin.read()
            return 0
        print(f"fakegcp.py: project {PROJECT} at {address}, kept in {folder}", file=sys.stderr)
        if platform:
            print(f"fakegcp.py: FIRESTORE_EMULATOR_HOST={platform.firestore}", file=sys.stderr)
        code = subprocess.call(args.command, env={**os.environ, **env})
    finally:
        if platform:
            platform.end()
    if violations := (folder / "violations.txt").read_text():
        print(f"fakegcp.py: requests that no discovery document allows:\n{violations}", file=sys.stderr)
        code = code or 1
    return code


if __name__ == "__main__":
    sys.exit(main())
