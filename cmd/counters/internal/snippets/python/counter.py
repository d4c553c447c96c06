"""A counter in Python: it writes its shards one by one, and no document of its own."""
import random

from google.cloud import firestore


class Shard:
    def __init__(self):
        self._count = 0

    def to_dict(self):
        return {"count": self._count}


class Counter:
    def __init__(self, num_shards):
        self._num_shards = num_shards

    def init_counter(self, counter):
        shards = counter.collection("shards")
        for num in range(self._num_shards):
            shards.document(str(num)).set(Shard().to_dict())

    def increment_counter(self, counter):
        shard = counter.collection("shards").document(str(random.randrange(self._num_shards)))
        shard.update({"count": firestore.Increment(1)})

    def get_count(self, counter):
        return sum(shard.to_dict().get("count", 0) for shard in counter.collection("shards").stream())


class AsyncCounter(Counter):
    async def init_counter(self, counter):
        shards = counter.collection("shards")
        for num in range(self._num_shards):
            await shards.document(str(num)).set(Shard().to_dict())

    async def increment_counter(self, counter):
        shard = counter.collection("shards").document(str(random.randrange(self._num_shards)))
        await shard.update({"count": firestore.Increment(1)})

    async def get_count(self, counter):
        total = 0
        async for shard in counter.collection("shards").stream():
            total += shard.to_dict().get("count", 0)
        return total
