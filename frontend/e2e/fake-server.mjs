// The fake server on a port: the control API and the endpoint of src/lib/backend/fake, and the
// built pages at /. The browser tests use it with --fake, and bench.mjs measures the pages with it.
//
//   node e2e/fake-server.mjs [port]     runs it alone
//
// Node cannot import TypeScript, so Vite loads the fake.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const dist = path('../dist/');
const types = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};
// The Content Security Policy that app/control sends with the pages.
const policy =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
  "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * Starts listening and resolves with {url, finishDownload, close}. Port 0 picks a free port. `many`
 * adds that many models, cached conversations and chats to the few that exist: Many in
 * src/lib/backend/fake/server.ts.
 */
export async function startFakeServer(port = 0, many = { models: 0, conversations: 0 }) {
  const { module } = await runnerImport(path('../src/lib/backend/fake/server.ts'), {
    root: path('..'),
    logLevel: 'warn',
  });
  const server = createServer();
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${server.address().port}`;
  const fake = new module.FakeServer(address, many);
  server.on('request', async (incoming, outgoing) => {
    const request = await requestOf(incoming, address);
    await send((await fake.handle(request)) ?? (await page(request)), outgoing);
  });
  return {
    url: `${address}/#token=${fake.token}`,
    finishDownload: () => fake.finishDownload(),
    close: async () => {
      fake.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function requestOf(incoming, address) {
  const { method, headers, url } = incoming;
  const body = method === 'GET' || method === 'HEAD' ? null : await buffer(incoming);
  return new Request(new URL(url, address), { method, headers, body });
}

async function send(response, outgoing) {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (!response.body) return outgoing.end();
  // A client that leaves ends the stream: pipeline then cancels the response's body.
  await pipeline(Readable.fromWeb(response.body), outgoing).catch(() => {});
}

/** A file of the built pages. */
async function page(request) {
  const { pathname } = new URL(request.url);
  const file = join(dist, normalize(pathname === '/' ? '/index.html' : pathname));
  try {
    const type = types[extname(file)] ?? 'application/octet-stream';
    const headers = { 'Content-Security-Policy': policy, 'Content-Type': type };
    return new Response(await readFile(file), { headers });
  } catch {
    return new Response(`No such page: ${pathname}`, { status: 404 });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startFakeServer(Number(process.argv[2] ?? 0));
  console.log(`web UI: ${url}`);
}
