// The end-to-end steps of the Overview page, and of opening a page.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile, rm, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startFakeServer } from './fake-server.mjs';
import { text, until, goTo, ready, ask, finished } from './helpers.mjs';

const run = promisify(execFile);

/** The code under a tab, copied with its button. */
async function copySnippet({ page, copied }, tab) {
  await page.getByRole('tab', { name: tab }).click();
  await page.getByRole('button', { name: `Copy: ${tab} example` }).click();
  return until('the snippet is on the clipboard', async () => {
    const code = await copied();
    return code === (await text(page, 'snippet')).trimEnd() ? code : '';
  });
}

/** The keys and types of a value; for a list, of its first element. */
function shape(value, at = 'state') {
  if (Array.isArray(value)) return value.length > 0 ? shape(value[0], `${at}[]`) : [];
  if (value === null || typeof value !== 'object')
    return [`${at}: ${value === null ? 'null' : typeof value}`];
  return Object.entries(value)
    .flatMap(([key, inner]) => shape(inner, `${at}.${key}`))
    .sort();
}

async function stateOf(url) {
  const [address, fragment] = url.split('#');
  const token = new URLSearchParams(fragment).get('token');
  const response = await fetch(`${address}control/state`, {
    headers: { 'X-Headroom-Token': token },
  });
  assert.equal(response.status, 200);
  return response.json();
}

export const openingSteps = [
  [
    'the state has the fields that the fake server has',
    async ({ server }) => {
      const fake = await startFakeServer();
      const expected = shape(await stateOf(fake.url));
      await fake.close();
      // The history and the requests of a fresh server are empty.
      const optional = /^state\.(speed\.history|requests)\[\]/;
      const found = shape(
        await until('the engine is ready', async () => {
          const state = await stateOf(server.url);
          return state.engine.status === 'ready' && state;
        }),
      );
      assert.deepEqual(
        found.filter((line) => !optional.test(line)),
        expected.filter((line) => !optional.test(line)),
      );
    },
  ],

  [
    'a page without the token says where to find the address',
    async ({ context, server }) => {
      const stranger = await context.newPage();
      await stranger.goto(server.url.split('#')[0]);
      await stranger
        .getByRole('heading', { name: 'This page is not connected to Headroom' })
        .waitFor();
      await stranger.close();
    },
  ],
];

export const overviewSteps = [
  [
    'Overview shows the demo model ready',
    async ({ page, server, shot }) => {
      await page.goto(server.url);
      await ready(page);
      assert.match(await text(page, 'state'), /demo/i);
      assert.match(await text(page, 'headroom'), /^[\d.,]+ (GB|MB)$/);
      assert.equal(
        new URL(page.url()).hash.includes('token'),
        false,
        'the token was removed from the address',
      );
      await shot('overview-light');
    },
  ],

  [
    'a reload keeps the token and the page',
    async ({ page }) => {
      await goTo(page, 'Chat');
      await page.reload();
      await page.getByRole('textbox', { name: 'Message' }).waitFor();
      await page.keyboard.press('Control+1');
      await ready(page);
    },
  ],

  [
    'the endpoint address can be copied',
    async ({ page, copied }) => {
      const shown = await text(page, 'endpoint');
      assert.match(shown, /^http:\/\/.+\/v1$/);
      await page.getByRole('button', { name: 'Copy: endpoint address' }).click();
      await until('the address is on the clipboard', async () => (await copied()) === shown);
    },
  ],

  [
    'the curl example works as pasted',
    async (tools) => {
      const code = await copySnippet(tools, 'curl');
      const { stdout } = await run('sh', ['-c', code], { timeout: 60_000 });
      assert.ok(JSON.parse(stdout).choices[0].message.content.length > 0, stdout);
    },
  ],

  [
    'the Python example works as pasted',
    async (tools) => {
      const code = await copySnippet(tools, 'Python');
      const available = await run('python3', ['--version']).then(
        () => true,
        () => false,
      );
      if (!available) return 'python3 is not installed';
      const { stdout } = await run('python3', ['-c', code], { timeout: 60_000 });
      assert.ok(stdout.trim().length > 0);
    },
  ],

  [
    'the JavaScript example works as pasted',
    async (tools) => {
      const code = await copySnippet(tools, 'JavaScript');
      const folder = await mkdtemp(join(tmpdir(), 'headroom-e2e-'));
      await writeFile(join(folder, 'example.mjs'), code);
      const { stdout } = await run('node', [join(folder, 'example.mjs')], { timeout: 60_000 });
      await rm(folder, { recursive: true });
      assert.ok(stdout.trim().length > 0);
    },
  ],
];

export const engineSteps = [
  [
    'the switch stops the engine; Chat offers to start it',
    async ({ page, shot }) => {
      await goTo(page, 'Overview');
      await page.getByRole('switch', { name: 'Stop the engine' }).click();
      await until(
        'the state line says Stopped',
        async () => (await text(page, 'state')) === 'Stopped',
      );
      await shot('overview-stopped-light');
      await goTo(page, 'Chat');
      const offer = page.getByRole('button', { name: /^Start / });
      await offer.waitFor();
      await shot('chat-stopped-light');
      await offer.click();
      await goTo(page, 'Overview');
      await ready(page);
    },
  ],

  [
    'the switch starts the engine again',
    async ({ page }) => {
      await page.getByRole('switch', { name: 'Stop the engine' }).click();
      await page.getByRole('switch', { name: 'Start the engine' }).click();
      await ready(page);
      await goTo(page, 'Chat');
      const answer = await ask(page, 'What is 76 - 27?');
      await finished(answer);
      assert.match(await answer.locator('.markdown').innerText(), /\b49\b/);
    },
  ],
];
