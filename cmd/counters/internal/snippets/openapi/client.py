"""The client for Python: counts by a gateway, and by one that loses answers."""

import sys
import uuid

import urllib3
from openapi_client import Amount, ApiClient, By, Configuration, CountersApi, Limit
from openapi_client.exceptions import ApiException, ConflictException

counter, gateway, losing = sys.argv[1:]
api = CountersApi(ApiClient(Configuration(host=gateway)))

key = str(uuid.uuid4())
for replayed in (None, True):
    added = api.increment(counter, idempotency_key=key, by=By(by=Amount(5)))
    assert added.replayed == replayed and added.by.actual_instance == 5, added
try:
    api.increment(counter, idempotency_key=key, by=By(by=Amount(6)))
    sys.exit("another request with the same key was taken")
except ApiException as e:
    assert e.status == 422, e

unsteady = CountersApi(ApiClient(Configuration(host=losing)))
key = str(uuid.uuid4())
failures = []
while len(failures) < 10:
    try:
        added = unsteady.increment(counter, idempotency_key=key, by=By(by=Amount({"likes": 1, "views": 3})))
        break
    except ApiException as e:
        if e.status not in (429, 500, 502, 503, 504):
            raise
        failures.append(str(e.status))
    except urllib3.exceptions.HTTPError:
        failures.append("lost")
assert added.replayed, added
assert failures == ["503", "lost"], failures

# of 3 seats none is taken
api.limit(counter, Limit(limit=3))
try:
    api.increment(counter, idempotency_key=str(uuid.uuid4()), by=By(by=Amount({"seats": 4})))
    sys.exit("more was taken than the limit")
except ConflictException as e:
    assert e.data.reason == "limit-reached" and e.data.left == 3, e.data

totals = api.read(counter, exact=True).totals
print(totals["likes"], totals["views"])
