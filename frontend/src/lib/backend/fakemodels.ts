// The models that the fake backend has: one of each kind that a person meets.
import type { Fit, Model, State, WhatIf, WhatIfQuery, Wired } from './types';

const GiB = 2 ** 30;

export function fakeModel(change: Partial<Model>): Model {
  return {
    id: 'model',
    name: 'Model',
    path: '',
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
    places: [],
    ...change,
  };
}

export function fakeModels(now = Date.now()): Model[] {
  const hub = (id: string) => ({
    id,
    path: `/home/you/.cache/huggingface/hub/models--${id.replace('/', '--')}/snapshots/c0ffee`,
    origin: 'huggingface' as const,
  });
  return [
    fakeModel({ id: 'headroom-demo', name: 'Headroom demo', bundled: true }),
    fakeModel({
      id: 'qwen3.6-35b-a3b',
      name: 'Qwen3.6-35B-A3B',
      parameters: 34.7e9,
      sizeBytes: 18.6e9,
      needBytes: 19.4 * GiB,
      fits: 'no',
      contextTokens: 262144,
      updatedAt: now - 3 * 86_400_000,
      path: '/home/you/models/qwen3.6-35b-a3b',
      places: [
        { id: 'qwen3.6-35b-a3b', path: '/home/you/models/qwen3.6-35b-a3b', origin: 'folder' },
      ],
    }),
    fakeModel({
      id: 'mlx-community/Qwen3.5-9B-4bit',
      name: 'Qwen3.5-9B-4bit',
      architecture: 'qwen3_5',
      parameters: 9.1e9,
      sizeBytes: 5.1e9,
      needBytes: 7.2 * GiB,
      contextTokens: 262144,
      updatedAt: now - 86_400_000,
      path: hub('mlx-community/Qwen3.5-9B-4bit').path,
      places: [
        hub('mlx-community/Qwen3.5-9B-4bit'),
        {
          id: 'Qwen3.5-9B-4bit',
          path: '/home/you/.lmstudio/models/mlx-community/Qwen3.5-9B-4bit',
          origin: 'lmstudio',
        },
      ],
    }),
    fakeModel({
      id: 'mlx-community/gemma-3-27b-it-4bit',
      name: 'gemma-3-27b-it-4bit',
      architecture: 'gemma3_text',
      parameters: 0,
      quantization: '',
      sizeBytes: 6.1e9,
      needBytes: 0,
      fits: 'no',
      state: 'downloading',
      updatedAt: now - 5000,
      contextTokens: 0,
      error:
        'The model is not complete yet: 1 file is missing (model-00003-of-00003.safetensors), 1 file is here in part',
      download: {
        doneBytes: 6.1e9,
        totalBytes: 16.9e9,
        missing: ['model-00003-of-00003.safetensors'],
        parts: ['model-00002-of-00003.safetensors'],
      },
      path: hub('mlx-community/gemma-3-27b-it-4bit').path,
      places: [hub('mlx-community/gemma-3-27b-it-4bit')],
    }),
    fakeModel({
      id: 'llama3.2:3b',
      name: 'llama3.2:3b',
      architecture: '',
      parameters: 0,
      quantization: '',
      sizeBytes: 2.0e9,
      needBytes: 0,
      fits: 'no',
      state: 'not_loadable',
      contextTokens: 0,
      error: "This model is in Ollama's format: Headroom runs .safetensors",
      path: '/home/you/.ollama/models/manifests/registry.ollama.ai/library/llama3.2/3b',
      places: [
        {
          id: 'llama3.2:3b',
          path: '/home/you/.ollama/models/manifests/registry.ollama.ai/library/llama3.2/3b',
          origin: 'ollama',
        },
      ],
    }),
  ];
}

const formats: [name: string, kvFormat: string, kvBits: string, bytesPerToken: number][] = [
  ['8-bit keys, 4-bit values', '', '', 9664],
  ['8-bit', 'affine', '(8, 8)', 11_000],
  ['16-bit, exact', 'f16', '', 20_480],
];

/** Arithmetic in the shapes of a 35B model: 18.6 GB of weights, 63 MB of state a stream. */
export function fakeWhatIf({ model, contextTokens, streams }: WhatIfQuery, state: State): WhatIf {
  const asked = {
    model: model || state.engine.model || 'headroom-demo',
    contextTokens: contextTokens || 32768,
    streams: streams || 8,
  };
  const weightsBytes = asked.model === 'headroom-demo' ? 11.4e6 : 18.6e9;
  return {
    ...asked,
    trainedTokens: 262_144,
    roomBytes: state.roomBytes,
    formats: formats.map(([name, kvFormat, kvBits, kvBytesPerToken]) => {
      const stateBytes = asked.streams * 63e6;
      const scratchBytes = 0.4 * GiB;
      const kvBytes = asked.contextTokens * asked.streams * kvBytesPerToken;
      const needBytes = weightsBytes + stateBytes + scratchBytes + kvBytes;
      const left = state.roomBytes - (needBytes - kvBytes);
      const fits: Fit =
        needBytes > state.roomBytes ? 'no' : needBytes > 0.85 * state.roomBytes ? 'tight' : 'yes';
      const largest = Math.floor(left / (asked.streams * kvBytesPerToken) / 32) * 32;
      return {
        name,
        kvFormat,
        kvBits,
        kvBytesPerToken,
        weightsBytes,
        kvBytes,
        stateBytes,
        scratchBytes,
        needBytes,
        fits,
        largestContextTokens: Math.max(0, Math.min(262_144, largest)),
      };
    }),
  };
}

/** A Mac of 24 GB whose limit is the system's default. */
export function fakeWired(limitBytes: number): Wired {
  const requestedBytes = limitBytes || 20 * GiB;
  const set = `/usr/sbin/sysctl iogpu.wired_limit_mb=${requestedBytes / 2 ** 20}`;
  return {
    unavailableReason: '',
    limitBytes: 0,
    persistedBytes: 0,
    recommendedBytes: 16 * GiB,
    safeBytes: 20 * GiB,
    minBytes: GiB,
    maxBytes: 22 * GiB,
    requestedBytes,
    commands: {
      set,
      persist: `${set} && \\\n/bin/launchctl bootstrap system /Library/LaunchDaemons/app.headroom.wired-limit.plist`,
      reset: '/usr/sbin/sysctl iogpu.wired_limit_mb=0',
    },
  };
}
