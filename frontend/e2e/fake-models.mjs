// The fake server's models: the demo, one that is too large, and one still downloading. The URLs
// are those of app/control/models.go.
const GiB = 2 ** 30;
const hub = (id) =>
  `/home/you/.cache/huggingface/hub/models--${id.replace('/', '--')}/snapshots/c0ffee`;

function model(id, name, fields) {
  return {
    id,
    name,
    path: fields.bundled ? '' : hub(id),
    architecture: 'qwen3_5_moe',
    parameters: 20e6,
    quantization: '4-bit, group 64',
    sizeBytes: 11.4e6,
    needBytes: 0.3 * GiB,
    fits: 'yes',
    loaded: false,
    bundled: false,
    error: '',
    state: 'ready',
    contextTokens: 32768,
    updatedAt: 0,
    download: null,
    places: fields.bundled ? [] : [{ id, path: hub(id), origin: 'huggingface' }],
    ...fields,
  };
}

/**
 * `engine` is the server's engine state, `more` the number of further models. `changed` is called
 * after each change of the list.
 */
export function fakeModels(engine, more, roomBytes, changed) {
  const settings = new Map();
  let version = 1;
  let paused = false;
  let limit = { limitBytes: 0, persistedBytes: 0 };
  let models = [
    model('headroom-demo', 'Headroom demo', { bundled: true }),
    model('mlx-community/Qwen3.6-35B-A3B-4bit', 'Qwen3.6-35B-A3B-4bit', {
      parameters: 34.7e9,
      sizeBytes: 18.6e9,
      needBytes: 19.4 * GiB,
      fits: 'no',
      contextTokens: 262144,
    }),
    model('mlx-community/Tiny-Qwen-4bit', 'Tiny-Qwen-4bit', {}),
    model('mlx-community/Half-Here-8bit', 'Half-Here-8bit', {
      parameters: 0,
      architecture: '',
      quantization: '',
      sizeBytes: 3e6,
      needBytes: 0,
      fits: 'no',
      state: 'downloading',
      updatedAt: Date.now(),
      error: 'The model is not complete yet: 1 file is missing (model-00002-of-00002.safetensors)',
      download: {
        doneBytes: 3e6,
        totalBytes: 9e6,
        missing: ['model-00002-of-00002.safetensors'],
        parts: [],
      },
    }),
    ...Array.from({ length: more }, (_, i) =>
      model(`org-${i % 40}/Model-${i}-4bit`, `Model-${i}-4bit`, {
        sizeBytes: (1 + (i % 97)) * 1e8,
        parameters: (1 + (i % 97)) * 2e8,
      }),
    ),
  ];

  const running = (id) => id === engine.model && engine.status === 'ready';
  const list = (contextTokens) => ({
    models: models.map((one) => ({
      ...one,
      loaded: running(one.id),
      needBytes: one.needBytes && one.needBytes + contextTokens * 2000,
    })),
    contextTokens,
    roomBytes: roomBytes(),
    folders: ['/home/you/.cache/huggingface/hub'],
    watch: { on: !paused, paused, watchedFolders: 4, polledFolders: 0, pollReason: '' },
  });
  const options = (id) => ({ settings: settings.get(id) ?? {}, readOnly: [] });

  function whatIf(query) {
    const asked = Object.fromEntries(
      ['context', 'streams'].map((name) => [name, Number(query.get(name) ?? 0)]),
    );
    const id = query.get('model') || engine.model || 'headroom-demo';
    const contextTokens = asked.context || 32768;
    const streams = asked.streams || 8;
    const weightsBytes = models.find((one) => one.id === id)?.sizeBytes ?? 0;
    const formats = [
      ['8-bit keys, 4-bit values', '', '', 864],
      ['16-bit, exact', 'f16', '', 2048],
    ].map(([name, kvFormat, kvBits, kvBytesPerToken]) => {
      const fixed = weightsBytes + streams * 1e6 + 6e7;
      const kvBytes = contextTokens * streams * kvBytesPerToken;
      const largest = Math.max(
        0,
        Math.floor((roomBytes() - fixed) / (streams * kvBytesPerToken * 32)) * 32,
      );
      return {
        name,
        kvFormat,
        kvBits,
        kvBytesPerToken,
        weightsBytes,
        kvBytes,
        stateBytes: streams * 1e6,
        scratchBytes: 6e7,
        needBytes: fixed + kvBytes,
        fits: fixed + kvBytes > roomBytes() ? 'no' : 'yes',
        largestContextTokens: Math.min(32768, largest),
      };
    });
    return {
      model: id,
      contextTokens,
      trainedTokens: 32768,
      streams,
      roomBytes: roomBytes(),
      formats,
    };
  }

  /** A Mac of 24 GB; an action does what it says. */
  function wired({ action, limitBytes }) {
    const requestedBytes = limitBytes || 20 * GiB;
    if (action)
      limit = {
        limitBytes: action === 'reset' ? 0 : requestedBytes,
        persistedBytes: { set: limit.persistedBytes, persist: requestedBytes, reset: 0 }[action],
      };
    const set = (megabytes) => `/usr/sbin/sysctl iogpu.wired_limit_mb=${megabytes}`;
    const daemon = '/Library/LaunchDaemons/app.headroom.wired-limit.plist';
    return {
      unavailableReason: '',
      ...limit,
      recommendedBytes: limit.limitBytes || 16 * GiB,
      safeBytes: 20 * GiB,
      minBytes: GiB,
      maxBytes: 22 * GiB,
      requestedBytes,
      commands: {
        set: set(requestedBytes / 2 ** 20),
        reset: `${set(0)} && \\\n/bin/rm -f ${daemon}`,
        persist: `${set(requestedBytes / 2 ** 20)} && \\\n/bin/launchctl bootstrap system ${daemon}`,
      },
    };
  }

  /** [status, document] of a request under /api/models, or null where there is no such address. */
  function answer(method, path, query, body) {
    if (path === '/api/memory/what-if') return [200, whatIf(query)];
    if (path === '/api/memory/wired')
      return [
        200,
        wired(method === 'POST' ? body : { limitBytes: Number(query.get('limit') ?? 0) }),
      ];
    if (path === '/api/models') return [200, list(Number(query.get('context') ?? 0))];
    if (path === '/api/models/rescan') return [200, list(0)];
    if (path === '/api/models/watching') {
      paused = body.paused;
      return [204, null];
    }
    const [, encoded, action] =
      /^\/api\/models\/([^/]+)\/(remove|reveal|settings)$/.exec(path) ?? [];
    const id = decodeURIComponent(encoded ?? '');
    if (!models.some((one) => one.id === id)) return null;
    if (action === 'settings') {
      if (method === 'PUT') settings.set(id, body);
      return [200, options(id)];
    }
    if (action === 'remove') {
      models = models.filter((one) => one.id !== id);
      version++;
      changed([{ kind: 'vanished', id, state: 'ready' }]);
    }
    return [204, null];
  }

  /** The download ends. */
  function finish() {
    models = models.map((one) =>
      one.state === 'downloading' ? model(one.id, one.name, { sizeBytes: 9e6 }) : one,
    );
    version++;
    changed([{ kind: 'finished', id: 'mlx-community/Half-Here-8bit', state: 'ready' }]);
  }

  return { answer, finish, version: () => version };
}
