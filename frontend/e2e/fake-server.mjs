// A server that keeps the control API's contract without an engine, for the e2e tests.
//
// It speaks the same HTTP as `headroom serve`: state and events under /api, streamed and
// whole answers under /v1/chat/completions, the built pages at /. It can subtract, which
// is what the tests ask, and repeats everything else. Run alone:
//   node e2e/fake-server.mjs [port]
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fakeCache } from './fake-cache.mjs';
import { fakeChats } from './fake-chats.mjs';
import { fakeModels } from './fake-models.mjs';
import { fakeSettings } from './fake-settings.mjs';

const dist = fileURLToPath(new URL('../dist/', import.meta.url));
const GiB = 2 ** 30;
const stepMs = 12;
const types = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};
// What app/control sends with the pages.
const policy =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'";
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Starts listening and resolves with {url, close}. Port 0 picks a free port. `many` adds that many
 * models and conversations to the few that exist.
 */
export async function startFakeServer(port = 0, many = { models: 0, conversations: 0 }) {
  const token = randomBytes(16).toString('hex');
  const engine = { status: 'ready', model: 'headroom-demo', progress: 1 };
  const requests = new Map();
  const listeners = new Set();
  const cache = fakeCache(many.conversations);
  const settings = fakeSettings();
  const history = Array.from({ length: 90 }, (_, i) => sample(Date.now() - (90 - i) * 5000, i));
  const models = fakeModels(
    engine,
    many.models,
    () => state().roomBytes,
    (changes) => {
      tell();
      for (const response of listeners)
        response.write(`event: models\ndata: ${JSON.stringify({ changes })}\n\n`);
    },
  );
  const chats = fakeChats((version) => {
    for (const response of listeners)
      response.write(`event: chats\ndata: ${JSON.stringify({ version })}\n\n`);
  });
  let address = '';
  let served = 0;

  const decodeNow = () => (requests.size > 0 ? 1000 / stepMs : 0);

  function sample(at, i) {
    const busy = i % 40 > 22;
    return {
      at,
      decode: busy ? 70 + 10 * Math.sin(i) : 0,
      prefill: 0,
      memoryBytes: (0.31 + i / 4000) * GiB,
    };
  }

  function state() {
    const on = engine.status === 'ready' || engine.status === 'busy';
    const loaded = on ? 1 : 0;
    const parts = [
      ['weights', 0.011 * loaded],
      ['kv_used', 0.05 * requests.size],
      ['kv_cached', 0.25 * loaded],
      ['state', 0.01 * loaded],
      ['scratch', 0.06 * loaded],
      ['headroom', 0.06],
      ['other', 9.4],
    ];
    const free = 24 - parts.reduce((sum, [, size]) => sum + size, 0);
    const segments = [...parts, ['free', free]].map(([kind, size]) => ({
      kind,
      bytes: Math.round(size * GiB),
      source:
        kind === 'other' || kind === 'free'
          ? 'reported'
          : kind === 'scratch'
            ? 'estimated'
            : 'measured',
    }));
    return {
      version: '0.0.0-fake',
      engine: {
        ...engine,
        status: engine.status === 'ready' && requests.size > 0 ? 'busy' : engine.status,
        device: 'CPU, fake',
        contextTokens: 32768,
        cacheFormat: 'f16',
        stateFormat: 'f32',
        error: null,
        notice: null,
      },
      endpoint: { url: `${address}/v1`, uiUrl: `${address}/` },
      memory: {
        totalBytes: 24 * GiB,
        availableBytes: free * GiB,
        headroomBytes: (free - 1.5) * GiB,
        wiredLimitBytes: 0,
        untouchedBytes: 0,
        segments,
      },
      cache: cache.stats(),
      speed: {
        decodeTokensPerSecond: decodeNow(),
        prefillTokensPerSecond: requests.size > 0 ? 1204 : 0,
        history,
      },
      power: { source: 'ac', thermalState: 'nominal', measures: [] },
      requests: [...requests.values()].map(({ abort, ...request }) => request),
      lastFinished: cache.finished[0]?.id ?? '',
      modelsVersion: models.version(),
      roomBytes: Math.round((24 - 1.5 - 9.46) * GiB),
    };
  }

  const tell = () => {
    const text = `event: state\ndata: ${JSON.stringify(state())}\n\n`;
    for (const response of listeners) response.write(text);
  };
  const ticker = setInterval(tell, 250);
  const sampler = setInterval(() => {
    history.push({ at: Date.now(), decode: decodeNow(), prefill: 0, memoryBytes: 0.33 * GiB });
    history.splice(0, history.length - 120);
  }, 5000);

  async function load(id) {
    Object.assign(engine, { status: 'loading', model: id, progress: 0 });
    while (engine.status === 'loading' && engine.progress < 1) {
      tell();
      await sleep(80);
      engine.progress = Math.min(1, engine.progress + 0.15);
    }
    if (engine.status === 'loading') engine.status = 'ready';
    tell();
  }

  async function api(request, response, path) {
    const url = new URL(request.url, address);
    if (request.headers['x-headroom-token'] !== token && url.searchParams.get('token') !== token) {
      return json(response, 401, error('unauthorized', 'This page is not signed in.'));
    }
    if (path === '/api/state') return json(response, 200, state());
    if (path === '/api/events') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
      listeners.add(response);
      response.on('close', () => listeners.delete(response));
      return void response.write(
        `event: state\ndata: ${JSON.stringify(state())}\n\nevent: chats\ndata: {"version":${chats.version()}}\n\n`,
      );
    }
    if (path.startsWith('/api/chats')) {
      const [status, document] = chats.answer(
        request.method,
        path,
        url.searchParams,
        request.method === 'PUT' ? await body(request) : {},
      );
      return document === null
        ? response.writeHead(status).end()
        : json(response, status, document);
    }
    if (path === '/api/engine/start') {
      const { model: id } = await body(request);
      void load(id || 'headroom-demo');
      return json(response, 202, state());
    }
    if (path === '/api/engine/stop') {
      Object.assign(engine, { status: 'stopped', model: '', progress: 0 });
      for (const running of requests.values()) running.abort();
      return json(response, 200, state());
    }
    if (/^\/api\/(cache|settings\/cache|requests\/recent)/.test(path)) {
      const [status, document] = cache.answer(
        request.method,
        path,
        url.searchParams,
        request.method === 'GET' ? {} : await body(request),
      );
      return document === null
        ? response.writeHead(status).end()
        : json(response, status, document);
    }
    if (/^\/api\/(models|memory)/.test(path)) {
      const answered = models.answer(
        request.method,
        path,
        url.searchParams,
        request.method === 'GET' ? {} : await body(request),
      );
      if (answered)
        return answered[1] === null
          ? response.writeHead(answered[0]).end()
          : json(response, ...answered);
    }
    if (/^\/api\/(settings|logs)$/.test(path)) {
      return json(
        response,
        ...settings(
          request.method,
          path,
          url.searchParams,
          request.method === 'GET' ? {} : await body(request),
        ),
      );
    }
    const cancel = /^\/api\/requests\/([^/]+)\/cancel$/.exec(path);
    if (cancel) {
      requests.get(cancel[1])?.abort();
      return response.writeHead(204).end();
    }
    json(response, 404, error('not_found', `No such endpoint: ${path}`));
  }

  async function chat(request, response) {
    const asked = await body(request);
    if (engine.status !== 'ready')
      return json(response, 503, error('no_model', 'No model is running.'));
    const question = asked.messages.at(-1).content;
    const { thoughts, answer } = reply(question, asked.chat_template_kwargs?.enable_thinking);
    const promptTokens = Math.ceil(question.length / 4) + 12;
    const usage = {
      prompt_tokens: promptTokens,
      completion_tokens: thoughts.length + answer.length,
      prompt_tokens_details: { cached_tokens: 8 },
    };
    const id = `chatcmpl-${++served}`;
    if (!asked.stream) {
      const message = { role: 'assistant', content: answer.join('') };
      return json(response, 200, {
        id,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage,
      });
    }
    let aborted = false;
    const running = {
      id,
      model: asked.model,
      phase: 'prefill',
      promptTokens,
      promptDoneTokens: 0,
      cachedTokens: 8,
      generatedTokens: 0,
      tokensPerSecond: 0,
      startedAt: Date.now(),
      abort: () => (aborted = true),
    };
    requests.set(id, running);
    response.on('close', () => (aborted = true));
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    const send = (fields) =>
      response.write(
        `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', ...fields })}\n\n`,
      );
    const delta = (fields) => send({ choices: [{ index: 0, delta: fields, finish_reason: null }] });

    for (let done = 0; done < promptTokens && !aborted; done += 32) {
      running.promptDoneTokens = done;
      response.write(`: keepalive ${done}/${promptTokens}\n\n`);
      await sleep(stepMs);
    }
    Object.assign(running, {
      phase: 'decode',
      promptDoneTokens: promptTokens,
      tokensPerSecond: 1000 / stepMs,
    });
    for (const text of thoughts) {
      if (aborted) break;
      delta({ reasoning_content: text, reasoning: text });
      running.generatedTokens++;
      await sleep(stepMs);
    }
    for (const text of answer) {
      if (aborted) break;
      delta({ content: text });
      running.generatedTokens++;
      await sleep(stepMs);
    }
    requests.delete(id);
    cache.ended(running, question, aborted);
    if (aborted && response.writable) send(error('cancelled', 'The request was cancelled.'));
    else if (!aborted) {
      send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
      send({ choices: [], usage });
      response.write('data: [DONE]\n\n');
    }
    response.end();
  }

  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    const handler = path.startsWith('/api/') ? api : path === '/v1/chat/completions' ? chat : pages;
    Promise.resolve(handler(request, response, path)).catch((cause) => {
      if (!response.headersSent) json(response, 500, error('internal', String(cause)));
    });
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${server.address().port}`;
  return {
    url: `${address}/#token=${token}`,
    finishDownload: models.finish,
    close: async () => {
      clearInterval(ticker);
      clearInterval(sampler);
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Subtracts or repeats, in pieces of about a token. */
function reply(question, thinking) {
  const pieces = (text) => text.match(/\s*\S+/g) ?? [];
  const sum = /(\d+) - (\d+)/.exec(question);
  const answer = sum ? `${sum[1]} - ${sum[2]} = ${sum[1] - sum[2]}.` : question;
  const thought = sum
    ? `Start at ${sum[1]} and take away ${sum[2]}. That leaves ${sum[1] - sum[2]}.`
    : 'I repeat it.';
  return { answer: pieces(answer), thoughts: thinking ? pieces(thought) : [] };
}

async function pages(request, response, path) {
  const file = join(dist, normalize(path === '/' ? '/index.html' : path));
  try {
    const bytes = await readFile(file);
    response.setHeader('Content-Security-Policy', policy);
    response
      .writeHead(200, { 'Content-Type': types[extname(file)] ?? 'application/octet-stream' })
      .end(bytes);
  } catch {
    json(response, 404, error('not_found', `No such page: ${path}`));
  }
}

function error(code, message) {
  return { error: { code, message, why: '', fix: '' } };
}

function json(response, status, value) {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
}

async function body(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString() || '{}');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startFakeServer(Number(process.argv[2] ?? 0));
  console.log(`web UI: ${url}`);
}
