// The models of the fake backend.
import type { Model, ModelPlace } from '../types';

const GiB = 2 ** 30;

/** A need of that size: half of it weights, the rest a conversation and scratch. */
export function fakeNeed(needBytes: number, contextTokens: number): Model['need'] {
  const weightsBytes = needBytes / 2;
  const scratchBytes = needBytes / 8;
  const kvBytes = needBytes - weightsBytes - scratchBytes;
  return { contextTokens, weightsBytes, kvBytes, stateBytes: 0, scratchBytes };
}

export function fakeModel(change: Partial<Model>): Model {
  return {
    id: 'model',
    name: 'Model',
    path: '',
    architecture: 'qwen3_5_moe',
    task: '',
    parameters: 20e6,
    quantization: '4-bit, group 64',
    drafts: true,
    blockUnused: '',
    convertible: false,
    adapters: [],
    sizeBytes: 11.4e6,
    needBytes: 0.3 * GiB,
    need: fakeNeed(0.3 * GiB, 32768),
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

/** A model of the Hugging Face cache. */
export function hubModel(id: string, change: Partial<Model> = {}): Model {
  const place = hubPlace(id);
  const name = id.slice(id.indexOf('/') + 1);
  return fakeModel({ id, name, path: place.path, places: [place], ...change });
}

function hubPlace(id: string): ModelPlace {
  const folder = `models--${id.replace('/', '--')}`;
  const path = `/home/you/.cache/huggingface/hub/${folder}/snapshots/c0ffee`;
  return { id, path, origin: 'huggingface' };
}

/** The model after the end of its download. */
export function completed({ id, download }: Model): Model {
  return hubModel(id, { sizeBytes: download?.totalBytes ?? 0 });
}

/** A model of each kind that a person meets. */
export function fakeModels(now = Date.now()): Model[] {
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
    hubModel('mlx-community/Qwen3.5-9B-4bit', {
      architecture: 'qwen3_5',
      parameters: 9.1e9,
      sizeBytes: 5.1e9,
      needBytes: 7.2 * GiB,
      contextTokens: 262144,
      updatedAt: now - 86_400_000,
      places: [
        hubPlace('mlx-community/Qwen3.5-9B-4bit'),
        {
          id: 'Qwen3.5-9B-4bit',
          path: '/home/you/.lmstudio/models/mlx-community/Qwen3.5-9B-4bit',
          origin: 'lmstudio',
        },
      ],
    }),
    hubModel('mlx-community/gemma-3-27b-it-4bit', {
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
        'The model is not complete yet: 1 file is missing (model-00003-of-00003.safetensors), ' +
        '1 file is here in part',
      download: {
        doneBytes: 6.1e9,
        totalBytes: 16.9e9,
        missing: ['model-00003-of-00003.safetensors'],
        parts: ['model-00002-of-00003.safetensors'],
      },
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
