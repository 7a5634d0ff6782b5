// The routes of the control API, over the fake backend. The type of `handlers` comes from
// openapi.json: `npm run check` fails when a route is missing or no longer exists.
import { HeadroomError } from '../backend';
import type { ChatChange } from '../chats';
import api from '../openapi.json';
import type * as schema from '../schema';
import type { ModelOptions } from '../types';
import type { FakeBackend } from './backend';
import { refusal } from './refusal';

type Paths = typeof api.paths;
/** "GET /api/cache/{key}", for every path and method of the API. */
type Route = {
  [Path in keyof Paths]: `${Uppercase<keyof Paths[Path] & string>} ${Path}`;
}[keyof Paths];

interface Call<Body = unknown> {
  /** The {id} or {key} in the path; empty where the path has none. */
  id: string;
  query: URLSearchParams;
  body: Body;
}

/** Returns the document of the answer, or nothing for an answer without one. */
type Handler = (backend: FakeBackend, call: Call<never>) => unknown;

const handlers: Record<Exclude<Route, 'GET /api/events'>, Handler> = {
  'GET /api/openapi.json': () => api,
  'GET /api/state': (backend) => backend.state,
  'POST /api/engine/start': (backend, { body }: Call<schema.StartRequest>) =>
    backend.start(body.model ?? ''),
  'POST /api/engine/stop': (backend, { body }: Call<schema.StopRequest>) =>
    backend.stop(body.model ?? ''),
  'POST /api/requests/{id}/cancel': (backend, { id }) => backend.cancel(id),
  'GET /api/requests/recent': async (backend): Promise<schema.HostFinishedList> => ({
    requests: await backend.finished(),
  }),

  'GET /api/models': (backend, { query }) => backend.models(number(query, 'context')),
  'POST /api/models/rescan': async (backend, { query }) => {
    await backend.rescanModels();
    return backend.models(number(query, 'context'));
  },
  'POST /api/models/watching': (backend, { body }: Call<schema.WatchRequest>) =>
    backend.pauseWatching(body.paused ?? false),
  'POST /api/models/{id}/remove': (backend, { id, body }: Call<schema.PlaceRequest>) =>
    backend.removeModel(id, body.path ?? ''),
  'POST /api/models/{id}/reveal': (backend, { id, body }: Call<schema.PlaceRequest>) =>
    backend.revealModel(id, body.path ?? ''),
  'GET /api/models/{id}/settings': (backend, { id }) => backend.modelSettings(id),
  'PUT /api/models/{id}/settings': (backend, { id, body }: Call<ModelOptions>) =>
    backend.changeModel(id, body),

  'GET /api/memory/what-if': (backend, { query }) =>
    backend.whatIf({
      model: query.get('model') ?? '',
      contextTokens: number(query, 'context'),
      streams: number(query, 'streams'),
    }),
  'GET /api/memory/wired': (backend, { query }) => backend.wired(number(query, 'limit')),
  'POST /api/memory/wired': (backend, { body }: Call<schema.WiredRequest>) =>
    backend.changeWired(body.action ?? 'set', body.limitBytes ?? 0),

  'GET /api/cache': (backend) => backend.conversations(),
  'DELETE /api/cache': (backend, { query }) => backend.clearCache(query.get('model') ?? ''),
  'GET /api/cache/{key}': (backend, { id }) => backend.conversation(id),
  'DELETE /api/cache/{key}': (backend, { id }) => backend.forget(id),
  'POST /api/cache/{key}/pin': (backend, { id, body }: Call<schema.PinRequest>) =>
    backend.pin(id, body.pinned ?? true),
  'POST /api/cache/move': (backend, { body }: Call<schema.MoveRequest>) =>
    backend.moveCache(body.dir ?? ''),
  'GET /api/settings/cache': (backend) => backend.cacheSettings(),
  'PUT /api/settings/cache': (backend, { body }: Call<schema.CacheChange>) =>
    backend.changeCache(body),

  'GET /api/stored': async (backend) => ({ items: await backend.stored() }),
  'POST /api/stored/delete': (backend, { body }: Call<schema.DeleteStored>) =>
    backend.deleteStored({ settings: body.settings ?? false, models: body.models ?? false }),

  'GET /api/keys': async (backend) => ({ keys: await backend.apiKeys() }),
  'POST /api/keys': (backend, { body }: Call<schema.APIKeyChange>) =>
    backend.addApiKey(keyChange(body)),
  'PUT /api/keys/{id}': async (backend, { id, body }: Call<schema.APIKeyChange>) => ({
    keys: await backend.changeApiKey(id, keyChange(body)),
  }),
  'DELETE /api/keys/{id}': async (backend, { id }) => ({ keys: await backend.removeApiKey(id) }),

  'GET /api/settings': (backend) => backend.generalSettings(),
  'PUT /api/settings': (backend, { body }: Call<schema.GeneralChange>) =>
    backend.changeGeneral(body),
  'GET /api/logs': (backend, { query }) => backend.logs(number(query, 'after')),

  'GET /api/chats': async ({ chats }, { query }) => ({
    chats: await chats.list(query.get('search') ?? ''),
  }),
  'GET /api/chats/{id}': ({ chats }, { id }) => chats.read(id),
  'PUT /api/chats/{id}': ({ chats }, { id, body }: Call<ChatChange>) => chats.write(id, body),
  'DELETE /api/chats/{id}': ({ chats }, { id }) => chats.remove(id),

  'GET /api/jobs': ({ transfers }): schema.JobList => ({ jobs: transfers.jobs }),
  'POST /api/jobs/{id}/stop': ({ transfers }, { id }) => transfers.stop(id),
  'POST /api/jobs/{id}/resume': ({ transfers }, { id }) => transfers.resume(id),
  'DELETE /api/jobs/{id}': ({ transfers }, { id }) => transfers.remove(id),
  'POST /api/imports/plan': ({ transfers }, { body }: Call<schema.ImportRequest>) =>
    transfers.plan(body.paths ?? [], body.mode ?? 'copy'),
  'POST /api/imports': ({ transfers }, { body }: Call<schema.ImportRequest>) =>
    transfers.import(body.paths ?? [], body.mode ?? 'copy'),
  'POST /api/downloads': ({ transfers }, { body }: Call<schema.DownloadRequest>) =>
    transfers.download(body.id ?? '', body.files ?? null),
  'GET /api/hub': ({ transfers }) => transfers.hub(),
  'PUT /api/hub': ({ transfers }, { body }: Call<schema.HubChange>) => transfers.changeHub(body),
  'GET /api/hub/search': async ({ transfers }, { query }): Promise<schema.HubSearch> => ({
    models: await transfers.search(query.get('words') ?? ''),
  }),
  'GET /api/hub/repository': ({ transfers }, { query }) =>
    transfers.repository(query.get('id') ?? ''),
};

/** Every route with the pattern of its paths and the status of its success. */
const routes = Object.entries(api.paths).flatMap(([path, operations]) =>
  Object.entries(operations).map(([method, { responses }]: [string, Operation]) => {
    const route = `${method.toUpperCase()} ${path}` as keyof typeof handlers;
    return {
      method: method.toUpperCase(),
      pattern: new RegExp(`^${path.replace(/\{\w+\}/, '([^/]+)')}$`),
      status: Number(Object.keys(responses).find((status) => status !== 'default')),
      handle: handlers[route] as Handler | undefined,
    };
  }),
);

interface Operation {
  responses: object;
}

/** Answers a request to the control API, except GET /api/events. Throws when it is refused. */
export async function respond(backend: FakeBackend, request: Request): Promise<Response> {
  const { pathname, searchParams: query } = new URL(request.url);
  for (const { method, pattern, status, handle } of routes) {
    const match = method === request.method ? pattern.exec(pathname) : null;
    if (!match || !handle) continue;
    const text = await request.text();
    const body = (text ? JSON.parse(text) : {}) as never;
    const document = await handle(backend, { id: decodeURIComponent(match[1] ?? ''), query, body });
    return status === 204 ? new Response(null, { status }) : Response.json(document, { status });
  }
  throw refusal('not_found', `No such endpoint: ${request.method} ${pathname}`);
}

/** The HTTP statuses of errors, as in engine/server/errors.go; 500 for the others. */
const statuses: Record<string, number> = {
  bad_request: 400,
  unauthorized: 401,
  not_found: 404,
  exists: 409,
  changed: 409,
  cancelled: 499,
  not_running: 503,
};

/** The answer to a request that the backend refuses. */
export function refused(cause: unknown): Response {
  const error = cause instanceof HeadroomError ? cause : refusal('internal', String(cause));
  return Response.json(errorBody(error), { status: statuses[error.code] ?? 500 });
}

/** The body of an answer that reports an error. */
export function errorBody({ code, message, why, fix }: HeadroomError): schema.ErrorBody {
  return { error: { code, message, why, fix } };
}

/** A change in which a missing limit is none. */
function keyChange(body: schema.APIKeyChange): Required<schema.APIKeyChange> {
  return {
    name: body.name ?? '',
    models: body.models ?? [],
    requestsPerMinute: body.requestsPerMinute ?? 0,
    concurrentRequests: body.concurrentRequests ?? 0,
    priority: body.priority ?? '',
  };
}

function number(query: URLSearchParams, name: string): number {
  return Number(query.get(name) ?? 0);
}
