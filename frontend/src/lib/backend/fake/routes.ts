// The routes of the control API, over the fake backend. The type of `handlers` comes from
// openapi.json: `npm run check` fails when a route is missing or no longer exists.
import { HeadroomError } from '../backend';
import type { ChatChange } from '../chats';
import api from '../openapi.json';
import type * as schema from '../schema';
import type { ModelOptions } from '../types';
import type { FakeBackend } from './backend';
import type { Packing } from '../transfers';
import type { TrainingRequest } from '../trainings';
import { machines, removeMachine, setMachine } from './machines';
import { refusal } from './refusal';

type Paths = typeof api.paths;
/** "GET /control/cache/{key}", for every path and method of the API. */
type Route = {
  [Path in keyof Paths]: `${Uppercase<keyof Paths[Path] & string>} ${Path}`;
}[keyof Paths];

/** The packing of a request, with the defaults of the server. */
const packed = ({ packing }: schema.ImportRequest): Packing => ({
  mode: 'affine',
  bits: 4,
  group: 64,
  ...packing,
});

/** A training, with zero values for what a request does not say. */
const training = (body: schema.TrainRequest): TrainingRequest => ({
  model: body.model ?? '',
  data: body.data ?? '',
  name: body.name ?? '',
  fineTuneType: body.fineTuneType || 'lora',
  iterations: body.iterations ?? 0,
  batchSize: body.batchSize ?? 0,
  learningRate: body.learningRate ?? 0,
  layers: body.layers ?? 0,
  maxSeqLength: body.maxSeqLength ?? 0,
  maskPrompt: body.maskPrompt ?? false,
  gradCheckpoint: body.gradCheckpoint ?? false,
});

interface Call<Body = unknown> {
  /** The {id} or {key} in the path; empty where the path has none. */
  id: string;
  query: URLSearchParams;
  body: Body;
}

/** Returns the document of the answer, or nothing for an answer without one. */
type Handler = (backend: FakeBackend, call: Call<never>) => unknown;

const handlers: Record<Exclude<Route, 'GET /control/events'>, Handler> = {
  'GET /control/openapi.json': () => api,
  'GET /control/state': (backend) => backend.state,
  'POST /control/engine/start': (backend, { body }: Call<schema.StartRequest>) =>
    backend.start(body.model ?? ''),
  'POST /control/engine/stop': (backend, { body }: Call<schema.StopRequest>) =>
    backend.stop(body.model ?? ''),
  'POST /control/requests/{id}/cancel': (backend, { id }) => backend.cancel(id),
  'GET /control/requests/recent': async (backend): Promise<schema.HostFinishedList> => ({
    requests: await backend.finished(),
  }),

  'GET /control/models': (backend, { query }) => backend.models(number(query, 'context')),
  'POST /control/models/rescan': async (backend, { query }) => {
    await backend.rescanModels();
    return backend.models(number(query, 'context'));
  },
  'POST /control/models/watching': (backend, { body }: Call<schema.WatchRequest>) =>
    backend.pauseWatching(body.paused ?? false),
  'POST /control/models/{id}/remove': (backend, { id, body }: Call<schema.PlaceRequest>) =>
    backend.removeModel(id, body.path ?? ''),
  'POST /control/models/{id}/reveal': (backend, { id, body }: Call<schema.PlaceRequest>) =>
    backend.revealModel(id, body.path ?? ''),
  'GET /control/models/{id}/settings': (backend, { id }) => backend.modelSettings(id),
  'GET /control/models/{id}/draft-models': async (backend, { id }) => ({
    models: await backend.draftModels(id),
  }),
  'PUT /control/models/{id}/settings': (backend, { id, body }: Call<ModelOptions>) =>
    backend.changeModel(id, body),

  'GET /control/models/{id}/check': ({ checks }, { id }) => checks.read(id),
  'POST /control/models/{id}/check': ({ checks }, { id }) => checks.start(id),
  'POST /control/models/{id}/check/stop': ({ checks }, { id }) => checks.stop(id),

  'GET /control/update': ({ system }) => system.update(),
  'POST /control/update/check': ({ system }) => system.changeUpdate('check'),
  'POST /control/update/download': ({ system }) => system.changeUpdate('download'),
  'POST /control/update/cancel': ({ system }) => system.changeUpdate('cancel'),
  'POST /control/update/back': ({ system }) => system.changeUpdate('back'),
  'GET /control/report': async ({ system }) => ({ parts: await system.report() }),
  'GET /control/agents': ({ agents }, { query }) => agents.list(query.get('model') ?? ''),
  'GET /control/agents/{id}': ({ agents }, { id, query }) =>
    agents.plan(id, query.get('model') ?? ''),
  'POST /control/agents/{id}': ({ agents }, { id, body }: Call<schema.AgentWrite>) =>
    agents.write(id, body.model ?? '', body.token ?? ''),
  'GET /control/agents/{id}/undo': ({ agents }, { id }) => agents.undoPlan(id),
  'POST /control/agents/{id}/undo': ({ agents }, { id, body }: Call<schema.AgentUndo>) =>
    agents.undo(id, body.token ?? ''),
  'POST /control/agents/{id}/launch': ({ agents }, { id, body }: Call<schema.AgentLaunch>) =>
    agents.launch(id, body.model ?? '', body.folder ?? ''),
  'GET /control/pairing': ({ pairing }) => pairing.read(),
  'PUT /control/pairing': ({ pairing }, { body }: Call<schema.SharingChange>) =>
    pairing.change(body),
  'POST /control/pairing/code': ({ pairing }, { body }: Call<schema.CodeRequest>) =>
    pairing.showCode(body.both ?? false),
  'DELETE /control/pairing/code': ({ pairing }) => pairing.hideCode(),
  'POST /control/pairing/join': ({ pairing }, { body }: Call<schema.JoinRequest>) =>
    pairing.join(body.address ?? '', body.code ?? '', body.both ?? false),
  'GET /control/memory/what-if': (backend, { query }) =>
    backend.whatIf({
      model: query.get('model') ?? '',
      contextTokens: number(query, 'context'),
      streams: number(query, 'streams'),
    }),
  'GET /control/memory/wired': (backend, { query }) => backend.wired(number(query, 'limit')),
  'POST /control/memory/wired': (backend, { body }: Call<schema.WiredRequest>) =>
    backend.changeWired(body.action ?? 'set', body.limitBytes ?? 0),

  'GET /control/cache': (backend) => backend.conversations(),
  'DELETE /control/cache': (backend, { query }) => backend.clearCache(query.get('model') ?? ''),
  'GET /control/cache/{key}': (backend, { id }) => backend.conversation(id),
  'DELETE /control/cache/{key}': (backend, { id }) => backend.forget(id),
  'POST /control/cache/{key}/pin': (backend, { id, body }: Call<schema.PinRequest>) =>
    backend.pin(id, body.pinned ?? true),
  'POST /control/cache/move': (backend, { body }: Call<schema.MoveRequest>) =>
    backend.moveCache(body.dir ?? ''),
  'GET /control/settings/cache': (backend) => backend.cacheSettings(),
  'PUT /control/settings/cache': (backend, { body }: Call<schema.CacheChange>) =>
    backend.changeCache(body),

  'GET /control/stored': async (backend) => ({ items: await backend.stored() }),
  'POST /control/stored/delete': (backend, { body }: Call<schema.DeleteStored>) =>
    backend.deleteStored({ settings: body.settings ?? false, models: body.models ?? false }),

  'GET /control/keys': async (backend) => ({ keys: await backend.apiKeys() }),
  'POST /control/keys': (backend, { body }: Call<schema.APIKeyChange>) =>
    backend.addApiKey(keyChange(body)),
  'PUT /control/keys/{id}': async (backend, { id, body }: Call<schema.APIKeyChange>) => ({
    keys: await backend.changeApiKey(id, keyChange(body)),
  }),
  'DELETE /control/keys/{id}': async (backend, { id }) => ({
    keys: await backend.removeApiKey(id),
  }),

  'GET /control/machines': () => machines(),
  'POST /control/machines': (_, { body }: Call<schema.MachineChange>) => setMachine(body),
  'PUT /control/machines/{id}': (_, { id, body }: Call<schema.MachineChange>) =>
    setMachine(body, id),
  'DELETE /control/machines/{id}': (_, { id }) => removeMachine(id),

  'GET /control/settings': (backend) => backend.generalSettings(),
  'PUT /control/settings': (backend, { body }: Call<schema.GeneralChange>) =>
    backend.changeGeneral(body),
  'GET /control/logs': (backend, { query }) => backend.logs(number(query, 'after')),

  'GET /control/chats': async ({ chats }, { query }) => ({
    chats: await chats.list(query.get('search') ?? ''),
  }),
  'GET /control/chats/{id}': ({ chats }, { id }) => chats.read(id),
  'PUT /control/chats/{id}': ({ chats }, { id, body }: Call<ChatChange>) => chats.write(id, body),
  'DELETE /control/chats/{id}': ({ chats }, { id }) => chats.remove(id),

  'GET /control/jobs': ({ transfers }): schema.JobList => ({ jobs: transfers.jobs }),
  'POST /control/jobs/{id}/stop': ({ transfers }, { id }) => transfers.stop(id),
  'POST /control/jobs/{id}/resume': ({ transfers }, { id }) => transfers.resume(id),
  'DELETE /control/jobs/{id}': ({ transfers }, { id }) => transfers.remove(id),
  'POST /control/imports/plan': ({ transfers }, { body }: Call<schema.ImportRequest>) =>
    body.packing
      ? transfers.planConversion(body.paths?.[0] ?? '', packed(body), body.name ?? '')
      : transfers.plan(body.paths ?? [], body.mode ?? 'copy'),
  'POST /control/imports': ({ transfers }, { body }: Call<schema.ImportRequest>) =>
    body.packing
      ? transfers.convert(body.paths?.[0] ?? '', packed(body), body.name ?? '')
      : transfers.import(body.paths ?? [], body.mode ?? 'copy'),
  'POST /control/downloads': ({ transfers }, { body }: Call<schema.DownloadRequest>) =>
    transfers.download(body.id ?? '', body.files ?? null),
  'POST /control/trainings/plan': ({ trainings }, { body }: Call<schema.TrainRequest>) =>
    trainings.plan(training(body)),
  'POST /control/trainings': ({ trainings }, { body }: Call<schema.TrainingStart>) =>
    trainings.start(training(body), body.install ?? false),
  'GET /control/trainings/{id}/losses': ({ trainings }, { id }) => trainings.losses(id),
  'POST /control/trainings/{id}/end': ({ trainings }, { id }) => trainings.end(id),
  'GET /control/hub': ({ transfers }) => transfers.hub(),
  'PUT /control/hub': ({ transfers }, { body }: Call<schema.HubChange>) =>
    transfers.changeHub(body),
  'GET /control/hub/search': async ({ transfers }, { query }): Promise<schema.HubSearch> => ({
    models: await transfers.search(query.get('words') ?? '', query.get('owner') ?? ''),
  }),
  'GET /control/hub/suggestions': async ({ transfers }): Promise<schema.HubSuggestions> => ({
    suggestions: await transfers.suggestions(),
  }),
  'GET /control/hub/repository': ({ transfers }, { query }) =>
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

/** Answers a request to the control API, except GET /control/events. Throws when it is refused. */
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
  busy: 503,
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
