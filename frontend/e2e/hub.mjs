// A local hub with one repository, the demo model. It serves ranges and checksums as Hugging Face's
// hub does, and sends files slowly enough for a test to watch.
import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const demo = fileURLToPath(new URL('../../app/demo/model/', import.meta.url));
const commit = 'c0ffee'.padEnd(40, '0');
const chunkBytes = 256 << 10;

/** Starts listening; resolves with {url, close}. */
export async function startHub(id, pauseMs = 15) {
  const files = new Map();
  for (const name of await readdir(demo)) files.set(name, await readFile(join(demo, name)));
  // The extra lines make this model differ from the bundled one.
  files.set('config.json', Buffer.concat([files.get('config.json'), Buffer.from('\n\n')]));
  const etag = (body) =>
    createHash('sha1').update(`blob ${body.length}\0`).update(body).digest('hex');

  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://hub');
    const json = (document) =>
      response.setHeader('Content-Type', 'application/json').end(JSON.stringify(document));
    if (pathname === '/api/models')
      return json([
        { id, tags: ['mlx'], downloads: 7, gated: false, config: { model_type: 'qwen3_5_moe' } },
      ]);
    if (pathname === `/api/models/${id}/revision/main`) {
      return json({
        sha: commit,
        siblings: [...files].map(([rfilename, body]) => ({
          rfilename,
          size: body.length,
          blobId: etag(body),
        })),
      });
    }
    const body = files.get(pathname.split(`/${id}/resolve/${commit}/`)[1] ?? '');
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
