// Chooses the server of the e2e tests, in this order:
//   npm run e2e -- --fake                           e2e/fake-server.mjs, over the built pages
//   HEADROOM_URL=http://127.0.0.1:PORT/#token=...   a running server, which keeps running
//   HEADROOM_BIN=PATH (default ../bin/headroom)     `serve --port 0`, for the time of the tests
// A missing program is an error. The fake never takes its place.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startFakeServer } from './fake-server.mjs';

const startMs = 60_000;

/**
 * Resolves with {name, url, isFake, kill, startedAt, home, finishDownload, addEmbeddingModel,
 * chats}. home is the server's home folder.
 * kill ends the server, and finishDownload completes the model Half-Here-8bit; both are null for a
 * server that runs already. addEmbeddingModel adds the model Tiny-Embedding, chats is the folder of
 * conversations, and startedAt the time when it was started; only a server that this test started
 * has them.
 */
export async function openServer() {
  const { HEADROOM_URL, HEADROOM_BIN } = process.env;
  if (process.argv.includes('--fake')) {
    const fake = await startFakeServer();
    return {
      name: 'e2e/fake-server.mjs',
      url: fake.url,
      isFake: true,
      kill: fake.close,
      finishDownload: fake.finishDownload,
    };
  }
  if (HEADROOM_URL)
    return {
      name: 'the server at HEADROOM_URL',
      url: HEADROOM_URL,
      isFake: false,
      kill: null,
      finishDownload: null,
    };
  const path = HEADROOM_BIN || fileURLToPath(new URL('../../bin/headroom', import.meta.url));
  if (!existsSync(path)) {
    throw new Error(
      `no server at ${path}: run \`make build\`, set HEADROOM_BIN or HEADROOM_URL, or pass --fake`,
    );
  }
  return startBinary(path);
}

const demo = fileURLToPath(new URL('../../app/demo/model/', import.meta.url));
const embedding = fileURLToPath(new URL('../../engine/testdata/vectors/qwen3/', import.meta.url));

const hubFolder = (home, name) =>
  join(home, '.cache/huggingface/hub', `models--mlx-community--${name}`, 'snapshots/c0ffee');

/** Adds a model with random weights that computes vectors. It appears at once and complete. */
async function plantEmbedding(home) {
  const folder = hubFolder(home, 'Tiny-Embedding');
  const outside = join(home, 'Tiny-Embedding');
  await cp(embedding, outside, { recursive: true });
  await mkdir(dirname(folder), { recursive: true });
  await rename(outside, folder);
}

/**
 * Copies the demo model into the Hugging Face cache of that home, once complete and once without
 * weights. Returns a function that completes the second copy.
 */
async function plantModels(home) {
  const whole = hubFolder(home, 'Tiny-Qwen-4bit');
  await mkdir(whole, { recursive: true });
  await cp(demo, whole, { recursive: true });
  const half = hubFolder(home, 'Half-Here-8bit');
  await mkdir(half, { recursive: true });
  await cp(demo, half, { recursive: true });
  // The extra line makes this model differ from the other copy.
  await writeFile(join(half, 'config.json'), '\n', { flag: 'a' });
  const weights = join(half, 'model.safetensors');
  await rename(weights, `${weights}.part`);
  return () => rename(`${weights}.part`, weights);
}

/**
 * Starts the program as a server. It gets a home folder for itself, because the tests change
 * settings, delete conversations and remove models. plant(home) puts models there.
 */
export async function startBinary(path, plant = plantModels) {
  const home = await mkdtemp(join(tmpdir(), 'headroom-e2e-home-'));
  const env = {
    ...process.env,
    HOME: home,
    CODEX_HOME: '',
    CLAUDE_CONFIG_DIR: '',
    XDG_CONFIG_HOME: join(home, 'config'),
    XDG_CACHE_HOME: join(home, 'cache'),
    XDG_DATA_HOME: join(home, 'data'),
  };
  const finishDownload = await plant(home);
  const startedAt = performance.now();
  const address = ['--host', '127.0.0.1', '--port', '0'];
  const forMachines = ['--machines-host', '127.0.0.1', '--machines-port', '0'];
  const child = spawn(path, ['serve', ...address, ...forMachines], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = [];
  const kill = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      await new Promise((resolve) => {
        child.removeAllListeners('exit').on('exit', resolve);
        if (!child.kill('SIGKILL')) resolve();
      });
    }
    // The model's process exits shortly after its server was killed, and may write its last blocks
    // until then.
    await rm(home, { recursive: true, force: true, maxRetries: 30, retryDelay: 100 });
  };
  const url = await new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`${path} serve ${why}. It said:\n${said.join('\n')}`));
    const timer = setTimeout(
      () => fail(`printed no "web UI:" line within ${startMs / 1000} s`),
      startMs,
    );
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        said.push(line);
        const found = /web UI:\s+(http\S+)/i.exec(line);
        if (found) {
          clearTimeout(timer);
          resolve(found[1]);
        }
      });
    }
    child.on('error', (cause) => fail(`did not start: ${cause.message}`));
    child.on('exit', (code) => fail(`ended with code ${code}`));
  }).catch(async (cause) => {
    await kill();
    throw cause;
  });
  return {
    name: path,
    url: await withToken(url, home),
    isFake: false,
    kill,
    startedAt,
    home,
    finishDownload,
    addEmbeddingModel: () => plantEmbedding(home),
    chats:
      process.platform === 'darwin'
        ? join(home, 'Library/Application Support/Headroom/chats')
        : join(home, 'data/headroom/chats'),
  };
}

/** Adds the token of the server's settings folder to its address, as serve prints it nowhere. */
async function withToken(url, home) {
  const settings =
    process.platform === 'darwin'
      ? join(home, 'Library/Application Support/headroom')
      : join(home, 'config/headroom');
  const token = await readFile(join(settings, 'token'), 'utf8');
  return `${url}#token=${token.trim()}`;
}
