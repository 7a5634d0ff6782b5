// The steps of the end-to-end test. Each takes the tools of run.mjs and throws when the
// page is wrong; a returned string says why it could not be tried here.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile, rm, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { accessibilityFaults } from './axe.mjs';
import { chatSteps } from './chat-steps.mjs';
import { startFakeServer } from './fake-server.mjs';
import { sheetSteps } from './sheet-steps.mjs';
import { transferSteps } from './transfers.mjs';
import { welcomeSteps } from './welcome.mjs';

const run = promisify(execFile);

const sentences = (number) =>
  Array.from({ length: number }, (_, i) => `Ada gave lamp ${i} to Ben in the garden.`).join(' ');
/** Asks for an answer of a few dozen tokens. */
const shortText = `Repeat this text:\n\n${sentences(10)}`;
/** Some 15,000 tokens: seconds of reading on any machine, each time: the beginning differs, so that no cache has it. */
let longTexts = 0;
const longText = () => `Text ${++longTexts}. Repeat it:\n\n${sentences(1200)}`;

const text = (page, id) => page.getByTestId(id).innerText();

async function until(what, condition, ms = 20_000) {
  const end = Date.now() + ms;
  let last;
  while (Date.now() < end) {
    if ((last = await condition())) return last;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited ${ms / 1000} s for: ${what}`);
}

const goTo = (page, name) =>
  page.getByRole('navigation', { name: 'Pages' }).getByRole('button', { name }).click();
const ready = (page) =>
  until('the state line says Ready', async () => /^Ready, /.test(await text(page, 'state')));

/** What the demo model is called here. */
const demoName = async (page) =>
  (/headroom.demo/i.exec(await page.getByRole('table', { name: 'Models' }).innerText()) ?? [''])[0];

/** Sends with the keyboard and returns the new answer. */
async function ask(page, question) {
  const answers = page.getByTestId('answer');
  const before = await answers.count();
  await page.getByRole('textbox', { name: 'Message' }).fill(question);
  await page.keyboard.press('Control+Enter');
  await until('an answer appears', async () => (await answers.count()) === before + 1);
  return answers.nth(before);
}

const finished = (answer) =>
  until(
    'the answer ends',
    async () => (await answer.getAttribute('aria-busy')) === 'false',
    60_000,
  );

/** As another program would ask; returns when the answer has ended. */
async function askFromOutside(server, content) {
  const response = await fetch(new URL('/v1/chat/completions', server.url), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({
      model: 'headroom-demo',
      messages: [{ role: 'user', content }],
      max_tokens: 8,
      stream: true,
    }),
  });
  assert.equal(response.status, 200);
  await response.text();
}

async function setThinking(page, on) {
  const toggle = page.getByRole('switch', { name: /Thinking/ });
  if ((await toggle.getAttribute('aria-checked')) !== String(on)) await toggle.click();
}

/** The code shown under a tab, as the copy button gives it. */
async function copySnippet({ page, copied }, tab) {
  await page.getByRole('tab', { name: tab }).click();
  await page.getByRole('button', { name: `Copy: ${tab} example` }).click();
  return until('the snippet is on the clipboard', async () => {
    const code = await copied();
    return code === (await text(page, 'snippet')).trimEnd() ? code : '';
  });
}

/** The shape of a value: keys and types, of a list its first element; null and what is null stand for themselves. */
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
  const response = await fetch(`${address}api/state`, { headers: { 'X-Headroom-Token': token } });
  assert.equal(response.status, 200);
  return response.json();
}

export const steps = [
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
    'a page without the token says how to get in',
    async ({ context, server }) => {
      const stranger = await context.newPage();
      await stranger.goto(server.url.split('#')[0]);
      await stranger
        .getByRole('heading', { name: 'This page is not connected to Headroom' })
        .waitFor();
      await stranger.close();
    },
  ],

  ...welcomeSteps,

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
        'the token has left the address',
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

  [
    'Chat streams an answer with its figures',
    async ({ page, shot }) => {
      await page.keyboard.press('Control+2');
      await page.getByRole('heading', { name: /^Ask / }).waitFor();
      await shot('chat-empty-light');
      await setThinking(page, false);
      const answer = await ask(page, 'What is 76 - 27?');
      await finished(answer);
      assert.match(await answer.locator('.markdown').innerText(), /\b49\b/);
      assert.equal(
        await answer.getByTestId('reasoning').count(),
        0,
        'no reasoning with thinking off',
      );
      assert.match(
        await answer.getByTestId('stats').innerText(),
        /tokens?[\s\S]*reused[\s\S]*first token in/,
      );
    },
  ],

  [
    'thinking is folded, with its length',
    async ({ page, shot }) => {
      await setThinking(page, true);
      const answer = await ask(page, 'What is 58 - 19?');
      await finished(answer);
      const reasoning = answer.getByTestId('reasoning');
      assert.equal(await reasoning.getAttribute('open'), null, 'folded');
      assert.match(await reasoning.locator('summary').innerText(), /Thought, ~?\d+ tokens?, /);
      await reasoning.locator('summary').click();
      assert.ok((await reasoning.locator('.text').innerText()).length > 0);
      assert.match(await answer.locator('.markdown').innerText(), /\b39\b/);
      await shot('chat-light');
      await setThinking(page, false);
    },
  ],

  [
    'an answer can be copied and asked for again',
    async ({ page, copied }) => {
      const answer = page.getByTestId('answer').first();
      const said = (await answer.locator('.markdown').innerText()).trim();
      await answer.getByRole('button', { name: 'Copy: answer' }).click();
      await until('the answer is on the clipboard', async () => (await copied()).trim() === said);
      await answer.getByRole('button', { name: 'Retry' }).click();
      const again = page.getByTestId('answer').first();
      await finished(again);
      assert.equal(await page.getByTestId('answer').count(), 1, 'what followed is dropped');
      assert.match(await again.locator('.markdown').innerText(), /\b49\b/);
    },
  ],

  [
    'Escape stops an answer that is being written',
    async ({ page, context }) => {
      await page.getByRole('button', { name: 'New chat' }).click();
      // The demo model writes faster than a test can look: the page itself presses the key, and the line is slow, so that the answer does not come in one piece.
      const line = await context.newCDPSession(page);
      const slow = (bytesPerSecond) =>
        line.send('Network.emulateNetworkConditions', {
          offline: false,
          latency: 0,
          downloadThroughput: bytesPerSecond,
          uploadThroughput: -1,
        });
      await slow(20_000);
      await page.evaluate(() => {
        const observer = new MutationObserver(() => {
          const answer = document.querySelector('[data-testid="answer"] .markdown');
          if (!answer || answer.textContent.length < 10) return;
          observer.disconnect();
          window.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
        });
        observer.observe(document.body, { subtree: true, childList: true, characterData: true });
      });
      const answer = await ask(page, shortText);
      await finished(answer);
      await slow(-1);
      await line.detach();
      assert.match(await answer.innerText(), /Stopped\./);
      assert.ok(
        (await answer.locator('.markdown').innerText()).length >= 10,
        'what had come is kept',
      );
      assert.match(await answer.getByTestId('stats').innerText(), /~\d+ tokens/);
    },
  ],

  [
    'Stop ends the reading of a long prompt, and the engine rests',
    async ({ page, shot }) => {
      await page.getByRole('button', { name: 'New chat' }).click();
      const answer = await ask(page, longText());
      await answer.getByText(/Reading the prompt, [\d,]+ of [\d,]+ tokens/).waitFor();
      await shot('chat-reading-light');
      await page.getByTestId('stop').click();
      await finished(answer);
      assert.match(await answer.innerText(), /Stopped\./);
      await goTo(page, 'Overview');
      await until(
        'no request is left',
        async () => (await page.getByTestId('request').count()) === 0,
      );
      await ready(page);
    },
  ],

  [
    'a request is seen and cancelled on Overview',
    async ({ page, shot }) => {
      await goTo(page, 'Chat');
      await page.getByRole('button', { name: 'New chat' }).click();
      await ask(page, longText());
      await goTo(page, 'Overview');
      const request = page.getByTestId('request');
      await request.getByText('Reading the prompt').waitFor();
      assert.match(await text(page, 'state'), /^Busy, /);
      await shot('overview-busy-light');
      await request.getByRole('button', { name: 'Cancel' }).click();
      await until('the request is gone', async () => (await request.count()) === 0);
      await ready(page);
      await goTo(page, 'Chat');
      const answer = page.getByTestId('answer').last();
      await finished(answer);
      assert.match(await answer.innerText(), /Stopped\./);
    },
  ],

  [
    'conversations survive a reload and can be deleted',
    async ({ page }) => {
      await goTo(page, 'Chat');
      const list = page.getByRole('list', { name: 'Conversations' }).getByRole('listitem');
      const before = await list.count();
      assert.ok(before >= 3, `${before} conversations`);
      await page.reload();
      await until('the list is back', async () => (await list.count()) === before);
      await list.first().hover();
      await list
        .first()
        .getByRole('button', { name: /^Delete/ })
        .click();
      await until('one fewer', async () => (await list.count()) === before - 1);
    },
  ],

  ...chatSteps,

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
    'the switch starts it again',
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

  [
    'Cache shows what was kept, a moment after the answers',
    async ({ page, server, shot }) => {
      await page.keyboard.press('Control+5');
      for (const trip of ['Lisbon', 'Porto', 'Faro'])
        await askFromOutside(server, `Plan a week in ${trip}. ${sentences(30)}`);
      const rows = page.getByTestId('kept');
      await until('three conversations are listed', async () => (await rows.count()) >= 3);
      await until(
        'they are on disk',
        async () => (await page.getByRole('button', { name: /^Delete from cache: / }).count()) >= 3,
      );
      await page
        .getByRole('group', { name: 'Conversations by size' })
        .getByRole('button')
        .first()
        .click();
      assert.equal(
        await page.locator('tr.selected').count(),
        1,
        'the table shows what was chosen on the map',
      );
      await until('its files are counted', async () =>
        /\d+ (block|tail)/.test(await text(page, 'details')),
      );
      await shot('cache-light');
    },
  ],

  [
    'a conversation is filtered, pinned and forgotten',
    async ({ page, shot }) => {
      const rows = page.getByTestId('kept');
      await page.getByRole('searchbox', { name: 'Filter conversations' }).fill('lisbon WEEK');
      await until(
        'one is left',
        async () =>
          (await rows.count()) === 1 && /Plan a week in Lisbon/.test(await rows.innerText()),
      );
      await rows
        .first()
        .getByRole('button', { name: /^Pin: / })
        .click();
      await rows
        .first()
        .getByRole('button', { name: /^Unpin: / })
        .waitFor();
      await rows
        .first()
        .getByRole('button', { name: /^Delete from cache: / })
        .click();
      const dialog = page.getByRole('dialog', { name: 'Delete this conversation from the cache?' });
      await dialog.waitFor();
      await shot('cache-forget-light');
      await page.keyboard.press('Escape');
      await until(
        'Escape means no',
        async () => (await dialog.count()) === 0 && (await rows.count()) === 1,
      );
      await rows
        .first()
        .getByRole('button', { name: /^Delete from cache: / })
        .click();
      await dialog.getByRole('button', { name: 'Delete' }).click();
      await page.getByText(/^Forgotten: \d+ files?, /).waitFor();
      await page.getByRole('searchbox', { name: 'Filter conversations' }).fill('');
    },
  ],

  [
    'a request says why its prompt was read again, with the difference marked',
    async ({ page, server, shot }) => {
      await page.getByRole('tab', { name: 'Requests' }).click();
      for (const minute of [1, 2])
        await askFromOutside(server, `It is 2026-11-20 10:0${minute}. ${sentences(30)}`);
      // What the engine calls it; the fake server knows edits only.
      const request = page.getByTestId('finished').first();
      await request.getByText(/date or time changed|message was edited/).waitFor();
      await request.getByRole('button').click();
      const details = page.getByTestId('reread');
      assert.deepEqual(
        [await details.locator('del').innerText(), await details.locator('ins').innerText()],
        ['1', '2'],
      );
      assert.match(await details.locator('.same').first().innerText(), /It is 2026-11-20 10:0$/);
      await shot('cache-requests-light');
    },
  ],

  [
    'a limit applies at once and can be undone',
    async ({ page, shot }) => {
      await page.getByRole('tab', { name: 'Limits' }).click();
      const field = page.getByRole('textbox', { name: /^Keep free/ });
      await field.fill('3 GB');
      await field.press('Tab');
      await page.getByText('keeps 3.0 GB free').waitFor();
      await shot('cache-limits-light');
      await page.getByRole('button', { name: 'Undo' }).click();
      await page.getByText('keeps 10.0 GB free').waitFor();
      assert.equal(await field.inputValue(), '');
      await page.getByRole('tab', { name: 'Conversations' }).click();
    },
  ],

  [
    'Models lists what is here, with what each needs, and searches',
    async ({ page, shot }) => {
      await page.keyboard.press('Control+3');
      const rows = page.getByTestId('model');
      await rows.first().waitFor();
      const tiny = rows.filter({ hasText: 'Tiny-Qwen-4bit' });
      assert.match(
        await tiny.innerText(),
        /qwen3_5_moe, 4-bit, group 64\s+20M\s+11\.4 MB\s+~[\d.]+ [GM]B\s+Fits/,
      );
      assert.match(
        await rows.filter({ hasText: 'Half-Here-8bit' }).innerText(),
        /Downloading|Paused at/,
      );
      await page.getByRole('searchbox', { name: 'Search models' }).fill('tiny QWEN');
      await until('one is left', async () => (await rows.count()) === 1);
      await page.getByRole('searchbox', { name: 'Search models' }).fill('');
      await page.getByLabel('Memory at').selectOption({ label: '8K tokens' });
      await tiny.getByRole('button', { name: /^Tiny-Qwen/ }).click();
      await until('the details follow', async () =>
        /Needs at 8,192/.test(await text(page, 'model-details')),
      );
      await shot('models-light');
    },
  ],

  [
    'a setting of a model is kept and undone',
    async ({ page }) => {
      const details = page.getByTestId('model-details');
      await details.getByText('How it is loaded').click();
      await details.getByLabel(/^Longest context/).fill('4096');
      await details.getByLabel(/^Longest context/).press('Tab');
      await details.getByText(/^Saved/).waitFor();
      await details.getByRole('button', { name: 'Undo' }).click();
      await until(
        'the field is empty again',
        async () => (await details.getByLabel(/^Longest context/).inputValue()) === '',
      );
      await page.getByLabel('Memory at').selectOption({ index: 0 });
    },
  ],

  [
    'one click starts another model, and one unloads it',
    async ({ page }) => {
      await page.getByRole('button', { name: 'Start: Tiny-Qwen-4bit' }).click();
      await page.getByRole('button', { name: 'Unload: Tiny-Qwen-4bit' }).waitFor();
      await page.getByRole('button', { name: 'Unload: Tiny-Qwen-4bit' }).click();
      await page.getByRole('button', { name: 'Start: Tiny-Qwen-4bit' }).waitFor();
    },
  ],

  [
    'a download that ends is announced, and starts from there',
    async ({ page, server, shot }) => {
      if (!server.finishDownload) return 'the models are not ours';
      await page
        .getByTestId('model')
        .filter({ hasText: 'Half-Here-8bit' })
        .getByRole('button')
        .click();
      await page.getByText('The model is not complete yet').waitFor();
      await shot('models-incomplete-light');
      await server.finishDownload();
      const note = page.getByTestId('arrival');
      await note.waitFor();
      assert.match(await note.innerText(), /^Half-Here-8bit is ready/);
      await shot('models-arrived-light');
      await note.getByRole('button', { name: 'Start' }).click();
      await page.getByRole('button', { name: 'Unload: Half-Here-8bit' }).waitFor();
      assert.equal(await note.count(), 0);
    },
  ],

  [
    'a model goes to the trash, after a question',
    async ({ page, shot }) => {
      const rows = page.getByTestId('model');
      await rows
        .filter({ hasText: 'Tiny-Qwen-4bit' })
        .getByRole('button', { name: /^Tiny-Qwen/ })
        .click();
      await page.getByRole('button', { name: /^Move to Trash: / }).click();
      await page.getByRole('dialog', { name: /^Move Tiny-Qwen/ }).waitFor();
      await shot('models-remove-light');
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: /^Move to Trash: / }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Move to Trash' }).click();
      await until(
        'it is gone',
        async () => (await rows.filter({ hasText: 'Tiny-Qwen-4bit' }).count()) === 0,
      );
      await page.getByRole('button', { name: 'Start: ' + (await demoName(page)) }).click();
      await goTo(page, 'Overview');
      await ready(page);
    },
  ],

  [
    'a setting holds at once, is undone, and the log is there',
    async ({ page, server, shot }) => {
      await goTo(page, 'Settings');
      const rest = page.getByLabel('Unload when idle');
      await rest.selectOption('30');
      await page.getByRole('status').filter({ hasText: 'Saved.' }).waitFor();
      const kept = async () => {
        const [address, fragment] = server.url.split('#');
        const headers = { 'X-Headroom-Token': new URLSearchParams(fragment).get('token') };
        return (await (await fetch(`${address}api/settings`, { headers })).json()).restMinutes;
      };
      assert.equal(await kept(), 30);
      await page.getByRole('button', { name: 'Undo' }).click();
      await until(
        'it is as it was',
        async () => (await rest.inputValue()) === '0' && (await kept()) === 0,
      );
      assert.equal(
        await page.getByLabel('Port', { exact: true }).isDisabled(),
        true,
        'serve has its port from the command line',
      );
      const log = page.getByRole('log', { name: 'Log' });
      await until('the log says that a model was loaded', async () =>
        /model loaded/.test(await log.innerText()),
      );
      await page.getByRole('searchbox', { name: 'Search the log' }).fill('no line is like this');
      await until('nothing is found', async () => /No lines match/.test(await log.innerText()));
      await page.getByRole('searchbox', { name: 'Search the log' }).fill('');
      await page.getByLabel('Appearance').selectOption('dark');
      assert.equal(
        await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
        'rgb(23, 27, 27)',
      );
      await page.getByLabel('Appearance').selectOption('system');
      assert.equal(
        await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
        'rgb(244, 246, 246)',
      );
      await shot('settings-light');
    },
  ],

  [
    'Memory accounts for all of it, each part with the source of its number',
    async ({ page, shot }) => {
      await page.keyboard.press('Control+4');
      const parts = page.getByTestId('part');
      await until('eight parts', async () => (await parts.count()) === 8);
      const percent = await parts.evaluateAll((rows) =>
        rows
          .map((row) => parseFloat(row.children[2].textContent.replace('<', '')) || 0)
          .reduce((a, b) => a + b, 0),
      );
      assert.ok(percent > 95 && percent < 106, `the shares add up to ${percent} %`);
      for (const part of await parts.all())
        assert.match(
          await part.innerText(),
          /(Measured by Headroom|Reported by the system|Estimated)$/,
        );
      await shot('memory-light');
    },
  ],

  [
    'what if: more streams need more, and what was tried is kept and holds',
    async ({ page, shot }) => {
      const verdict = page.getByTestId('verdict');
      await verdict.waitFor();
      const need = async () => /Needs ~([\d.]+ [GM]B)/.exec(await verdict.innerText())[1];
      await page.getByLabel('Context').focus();
      await page.keyboard.press('Home');
      await page.getByText('2,048 tokens', { exact: true }).waitFor();
      await page.getByLabel('Streams').focus();
      await page.keyboard.press('Home');
      await page.getByText('1 at once').waitFor();
      await until('less is needed', async () => /each/.test(await verdict.innerText()) === false);
      const little = await need();
      await page.keyboard.press('End');
      await until('more is needed', async () => (await need()) !== little);
      await shot('memory-what-if-light');
      await page.getByRole('radio').last().check();
      await page.getByRole('button', { name: /^Save for / }).click();
      await page.getByText(/^Saved\. Applies when/).waitFor();
      await page.getByText(/\(current\)/).waitFor();
      await page.getByTestId('wired').waitFor();
    },
  ],

  [
    'the wired limit: the command is shown before it runs, and undone',
    async ({ page, shot }) => {
      const card = page.getByTestId('wired');
      if (!/Current/.test(await card.innerText())) return 'this machine has no wired limit';
      if (process.platform === 'darwin') return 'the dialog of the system would wait for a person';
      await card.getByRole('button', { name: 'Apply permanently…' }).click();
      const dialog = page.getByRole('dialog', { name: 'Change the wired limit permanently?' });
      assert.match(
        await dialog.innerText(),
        /iogpu\.wired_limit_mb=20480[\s\S]*launchctl bootstrap/,
      );
      await shot('memory-wired-command-light');
      await dialog.getByRole('button', { name: 'Change', exact: true }).click();
      await card.getByText('20.0 GB is set again').waitFor();
      await shot('memory-wired-light');
      await card.getByRole('button', { name: 'Restore default…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click();
      await until('nothing is set again', async () => !/is set again/.test(await card.innerText()));
    },
  ],

  ...transferSteps,

  ...sheetSteps,

  [
    'the dark theme, three sizes of window, and nothing that shuts anybody out',
    async ({ page, shot }) => {
      const sizes = {
        '': { width: 1100, height: 720 },
        '-large': { width: 1600, height: 1000 },
        '-small': { width: 760, height: 560 },
      };
      const faults = [];
      for (const [suffix, size] of Object.entries(sizes)) {
        await page.setViewportSize(size);
        for (const theme of ['dark', 'light']) {
          await page.emulateMedia({ colorScheme: theme });
          for (const name of ['Models', 'Memory', 'Cache', 'Settings', 'Chat', 'Overview']) {
            await goTo(page, name);
            if (name === 'Memory') await page.getByTestId('verdict').waitFor();
            await page.mouse.move(1, 1);
            const wider = await page.evaluate(
              () => document.documentElement.scrollWidth - innerWidth,
            );
            assert.ok(wider <= 0, `${name} at ${size.width} px is ${wider} px too wide`);
            await shot(`${name.toLowerCase()}${suffix}-${theme}`);
            faults.push(
              ...(await accessibilityFaults(page)).map(
                (fault) => `${name}${suffix}, ${theme}: ${fault}`,
              ),
            );
          }
        }
      }
      await page.setViewportSize(sizes['']);
      assert.deepEqual(faults, []);
    },
  ],

  [
    'the keyboard alone: a ring shows where it is, Space switches',
    async ({ page }) => {
      await goTo(page, 'Overview');
      // Past the pages behind Overview.
      const behind =
        (await page.getByRole('navigation', { name: 'Pages' }).getByRole('button').count()) - 1;
      for (let i = 0; i <= behind; i++) await page.keyboard.press('Tab');
      const focused = await page.evaluate(() => {
        const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
        return { role: document.activeElement.getAttribute('role'), outlineStyle, outlineWidth };
      });
      assert.deepEqual(focused, { role: 'switch', outlineStyle: 'solid', outlineWidth: '2px' });
    },
  ],

  [
    'nothing moves when the system asks for less motion',
    async ({ page }) => {
      await page.emulateMedia({ reducedMotion: 'reduce' });
      const moving = await page.evaluate(
        () =>
          [...document.querySelectorAll('*')].filter((element) =>
            getComputedStyle(element)
              .transitionDuration.split(', ')
              .some((time) => parseFloat(time) > 0),
          ).length,
      );
      assert.equal(moving, 0);
      await page.emulateMedia({ reducedMotion: 'no-preference' });
    },
  ],

  [
    'the page says when the connection is lost',
    async ({ page, server, shot }) => {
      if (!server.kill) return 'the server is not ours to end';
      await server.kill();
      await page.getByText('Connection lost.').waitFor();
      await page.getByRole('button', { name: 'Try now' }).waitFor();
      assert.equal(await page.getByRole('switch', { name: /the engine/ }).isDisabled(), true);
      await shot('connection-lost-light');
    },
  ],
];
