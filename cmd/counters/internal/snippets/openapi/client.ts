// The client for TypeScript: counts by a gateway, and by one that loses answers.
import { Configuration, CountersApi, FetchError, ProblemFromJSON, ResponseError } from "./made/index";

declare const process: { argv: string[]; exit(code: number): void };

function check(holds: unknown, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

async function main() {
  const [counter, gateway, losing] = process.argv.slice(2);
  const api = new CountersApi(new Configuration({ basePath: gateway }));

  const idempotencyKey = crypto.randomUUID();
  for (const replayed of [undefined, true]) {
    const added = await api.increment({ counter, idempotencyKey, by: { by: 5 } });
    check(added.replayed === replayed && added.by === 5, added);
  }
  const status = await api.increment({ counter, idempotencyKey, by: { by: 6 } }).then(
    () => 200,
    (e) => (e as ResponseError).response.status,
  );
  check(status === 422, status);

  const unsteady = new CountersApi(new Configuration({ basePath: losing }));
  const request = { counter, idempotencyKey: crypto.randomUUID(), by: { by: { likes: 1, views: 3 } } };
  const failures: string[] = [];
  for (;;) {
    try {
      const added = await unsteady.increment(request);
      check(added.replayed, added);
      break;
    } catch (e) {
      if (e instanceof FetchError) failures.push("lost");
      else if (e instanceof ResponseError && [429, 500, 502, 503, 504].includes(e.response.status)) failures.push(`${e.response.status}`);
      else throw e;
      if (failures.length === 10) throw e;
    }
  }
  check(failures.join() === "503,lost", failures);

  // of 3 seats none is taken
  await api.limit({ counter, limit: { limit: 3 } });
  const refused = await api.increment({ counter, idempotencyKey: crypto.randomUUID(), by: { by: { seats: 4 } } }).then(
    () => undefined,
    async (e) => ProblemFromJSON(await (e as ResponseError).response.json()),
  );
  check(refused?.reason === "limit-reached" && refused.left === 3 && refused.field === "seats", refused);

  const { totals } = await api.read({ counter, exact: true });
  console.log(`${totals?.likes} ${totals?.views}`);
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
