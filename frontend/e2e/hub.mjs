// A local hub with the demo model under several names, and models that can be found but not
// downloaded. It serves ranges and checksums as Hugging Face's hub does, and sends files slowly
// enough for a test to watch.
import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { config, qwen3 } from './shapes.mjs';

const demo = fileURLToPath(new URL('../../app/demo/model/', import.meta.url));
const commit = 'c0ffee'.padEnd(40, '0');
const chunkBytes = 256 << 10;

/** What a search finds: quantizations of one model, one that is gated, one of an unknown kind. */
const others = [
  ...[
    ['4bit', 4, { U32: 1.02e9, BF16: 0.26e9 }, 90_000],
    ['6bit', 6, { U32: 1.54e9, BF16: 0.26e9 }, 4_000],
    ['8bit', 8, { U32: 2.05e9, BF16: 0.26e9 }, 20_000],
    ['bf16', 0, { BF16: 8.2e9 }, 7_000],
  ].map(([name, bits, parameters, downloads]) => ({
    id: `mlx-community/Qwen3-8B-${name}`,
    tags: ['mlx', 'license:apache-2.0'],
    downloads,
    gated: false,
    safetensors: { parameters },
    config: shapeOf8B(bits),
  })),
  {
    id: 'makers/Gated-Qwen-8B',
    tags: ['license:llama3.1'],
    downloads: 12_000,
    gated: 'auto',
    safetensors: { parameters: { BF16: 8e9 } },
    config: { model_type: 'llama' },
    closed: true,
  },
  {
    id: 'somebody/Qwen-Nine-70B',
    tags: [],
    downloads: 9_000,
    gated: false,
    config: { model_type: 'llama9' },
  },
];

function shapeOf8B(bits) {
  const { quantization, ...shape } = config(qwen3['8B']);
  if (bits === 0) return { ...shape, torch_dtype: 'bfloat16' };
  return { ...shape, quantization: { ...quantization, bits } };
}

/** What the hub's list says of a model. */
const entry = ({ config: { model_type }, closed, ...model }) => ({
  ...model,
  config: { model_type },
});

/**
 * Starts listening; resolves with {url, close}. The demo model is the repository `id`, and any
 * other that is asked for by name and is not in the list.
 */
export async function startHub(id, pauseMs = 15) {
  const files = new Map();
  for (const name of await readdir(demo)) files.set(name, await readFile(join(demo, name)));
  // The extra lines make this model differ from the bundled one.
  files.set('config.json', Buffer.concat([files.get('config.json'), Buffer.from('\n\n')]));
  const etag = (body) =>
    createHash('sha1').update(`blob ${body.length}\0`).update(body).digest('hex');

  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://hub');
    const json = (document) =>
      response.setHeader('Content-Type', 'application/json').end(JSON.stringify(document));
    if (pathname === '/api/models') {
      const words = (searchParams.get('search') ?? '').toLowerCase();
      const owner = searchParams.get('author') ?? '';
      const demoEntry = {
        id,
        tags: ['mlx', 'license:mit'],
        downloads: 7,
        gated: false,
        safetensors: { parameters: { U8: files.get('model.safetensors').length } },
        config: { model_type: 'qwen3_5_moe' },
      };
      // A first page has no quantizations that few people use.
      const listed = others.filter(({ downloads }) => owner !== '' || downloads > 5_000);
      return json(
        [demoEntry, ...listed.map(entry)].filter(
          (model) =>
            model.id.toLowerCase().includes(words) && (!owner || model.id.startsWith(`${owner}/`)),
        ),
      );
    }
    const plain = /^\/([^/]+\/[^/]+)\/resolve\/main\/config\.json$/.exec(pathname);
    const other = others.find((model) => model.id === plain?.[1]);
    if (other?.closed) return response.writeHead(401, { 'X-Error-Code': 'GatedRepo' }).end();
    if (other) return json(other.config);
    if (/^\/api\/models\/[^/]+\/[^/]+\/revision\/main$/.test(pathname)) {
      return json({
        sha: commit,
        siblings: [...files].map(([rfilename, body]) => ({
          rfilename,
          size: body.length,
          blobId: etag(body),
        })),
      });
    }
    const name = plain ? 'config.json' : pathname.split(`/resolve/${commit}/`)[1];
    const body = files.get(name ?? '');
    if (!body) return response.writeHead(404).end();
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [
      null,
      '0',
      String(body.length - 1),
    ];
    const part = body.subarray(Number(from), Number(to) + 1);
    response.writeHead(request.headers.range ? 206 : 200, {
      ETag: `"${etag(body)}"`,
      'Content-Length': part.length,
      'Accept-Ranges': 'bytes',
      'Content-Range': `bytes ${from}-${to}/${body.length}`,
    });
    if (request.method === 'HEAD') return response.end();
    for (let at = 0; at < part.length && !response.destroyed; at += chunkBytes) {
      response.write(part.subarray(at, at + chunkBytes));
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    return response.end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close: () => (server.closeAllConnections(), server.close()),
  };
}
