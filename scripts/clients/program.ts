// A program over the types that openapi-typescript generates: `tsc` checks it, then it runs.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Instance = components["schemas"]["Instance"];
type Event = components["schemas"]["Event"];

declare const process: { argv: string[] };

const api = createClient<paths>({ baseUrl: process.argv[2] });

async function submitted(): Promise<Instance | undefined> {
  const reply = await api.POST("/instances/", { body: { file: { task: "hello", run: "true" } } });
  if (reply.error) {
    const problems: string[] = (reply.error.errors ?? []).map((it) => `${it.field}: ${it.message}`);
    throw new Error([reply.error.detail, ...problems].join("\n"));
  }
  // @ts-expect-error: a reply has no such field.
  reply.data.nothing;
  const shown = await api.GET("/instances/{id}", { params: { path: { id: reply.data.first } } });
  // One instance, not a range of them.
  return shown.data && "attempts" in shown.data ? shown.data : undefined;
}

async function waiting(): Promise<Instance[]> {
  const { data } = await api.GET("/bullpen/", { params: { query: { limit: 10 } } });
  return data?.items ?? [];
}

export function granted(event: Event): string | undefined {
  if (typeof event.fact === "object" && "lease-granted" in event.fact) {
    const lease: components["schemas"]["FactLeaseGranted"] = event.fact["lease-granted"];
    return lease.holder.worker;
  }
  return undefined;
}

// @ts-expect-error: a submission needs a file.
export const incomplete: components["schemas"]["Submit"] = { params: {} };

const instance = await submitted();
if (instance?.name !== "hello") {
  throw new Error(`submitted: ${JSON.stringify(instance)}`);
}
for (const other of await waiting()) {
  if (!other.id.startsWith("i")) {
    throw new Error(`waiting: ${JSON.stringify(other)}`);
  }
}
const { error, response } = await api.GET("/instances/{id}", { params: { path: { id: "i999999999" } } });
if (response.status !== 404 || !error?.detail.includes("i999999999")) {
  throw new Error(`an unknown instance: ${JSON.stringify(error)}`);
}
