"""Runs a snippet: run.py sync|async COUNTER [create N] [increment N] [sum], in the order given. sum is printed."""
import asyncio
import os
import sys

from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore

from counter import AsyncCounter, Counter

NUM_SHARDS = 5


async def main(kind, name, *commands):
    client = firestore.AsyncClient if kind == "async" else firestore.Client
    db = client(project=os.environ["GOOGLE_CLOUD_PROJECT"], credentials=AnonymousCredentials())
    snippet = (AsyncCounter if kind == "async" else Counter)(NUM_SHARDS)
    document = db.collection("counters").document(name)

    async def call(method):
        result = method(document)
        return await result if asyncio.iscoroutine(result) else result

    commands = list(commands)
    while commands:
        match commands.pop(0):
            case "create":
                snippet._num_shards = int(commands.pop(0))
                await call(snippet.init_counter)
            case "increment":
                for _ in range(int(commands.pop(0))):
                    await call(snippet.increment_counter)
            case "sum":
                print(await call(snippet.get_count))
            case _:
                raise ValueError("commands are create N, increment N and sum")


asyncio.run(main(*sys.argv[1:]))
