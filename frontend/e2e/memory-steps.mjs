// The end-to-end steps of the Memory page.
import assert from 'node:assert/strict';
import { accessibilityFaults } from './axe.mjs';
import { control, until } from './helpers.mjs';

const stateOf = async (server) => JSON.parse(await control(server, 'GET', 'state'));

/** Unloads all models but the one that the state is about. Returns its ID. */
async function keepOne(server) {
  const { engine, engines } = await stateOf(server);
  for (const { model } of engines)
    if (model !== engine.model) await control(server, 'POST', 'engine/stop', { model });
  await until('one model is loaded', async () => (await stateOf(server)).engines.length <= 1);
  return engine.model;
}

/**
 * Lets the page see the server's state with other memory pressure. The rest is the server's. The
 * returned function ends it.
 */
async function underPressure(page, server, pressure) {
  const pressed = async () => {
    const state = await stateOf(server);
    const model = state.engine.model;
    const advice = ['ready', 'busy'].includes(state.engine.status)
      ? [{ model, freesBytes: 1.5 * 2 ** 30, busy: false, pinned: false, lastUsedAt: 0 }]
      : [];
    return JSON.stringify({ ...state, pressure: { ...state.pressure, ...pressure, advice } });
  };
  // A page that has gone on no longer takes an answer.
  const answer = (contentType, text) => async (route) =>
    route.fulfill({ contentType, body: text(await pressed()) }).catch(() => {});
  await page.route(
    '**/control/events*',
    answer('text/event-stream', (state) => `retry: 100\n\nevent: state\ndata: ${state}\n\n`),
  );
  // The page asks for this when the stream ends.
  await page.route(
    '**/control/state',
    answer('application/json', (state) => state),
  );
  await page.reload();
  return async () => {
    await page.unroute('**/control/events*');
    await page.unroute('**/control/state');
    await page.reload();
    await page.getByTestId('pressure').waitFor({ state: 'detached' });
  };
}

export const memorySteps = [
  [
    'the parts of Memory add up to the total, each with its source',
    async ({ page, shot }) => {
      await page.keyboard.press('Control+4');
      const parts = page.getByTestId('part');
      await until('nine parts', async () => (await parts.count()) === 9);
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
    'a model that was just loaded reserves little, hatched and worded: its cache grows with use',
    async ({ page, server }) => {
      const model = await keepOne(server);
      await control(server, 'POST', 'engine/stop', { model });
      await until('it is unloaded', async () => (await stateOf(server)).engines.length === 0);
      await control(server, 'POST', 'engine/start', { model });
      await until('it is loaded', async () => (await stateOf(server)).engine.status === 'ready');
      const { formats } = JSON.parse(await control(server, 'GET', 'memory/what-if'));
      const { kvBytes, stateBytes } = formats[0].need;
      const { reservedBytes } = (await stateOf(server)).engine;
      assert.ok(
        reservedBytes < kvBytes / 2 + stateBytes,
        `${reservedBytes} bytes are reserved, a whole conversation takes ${kvBytes}`,
      );
      const row = page.getByTestId('part').filter({ hasText: 'Reserved, not used' });
      assert.match(await row.innerText(), /Other apps can use it until then/);
      const swatch = row.locator('.swatch');
      const image = await swatch.evaluate((one) => getComputedStyle(one).backgroundImage);
      assert.match(image, /repeating-linear-gradient/);
    },
  ],

  [
    'the system’s memory pressure and swap are shown, and while memory is short, what to unload',
    async ({ page, server, shot }) => {
      await page.keyboard.press('Control+4');
      const line = page.getByTestId('pressure-line');
      assert.match(
        await line.innerText(),
        /Memory pressure: (normal|short|very short|not reported)\s+Swap: (none|.* of .*)/,
      );
      const model = await keepOne(server);
      const end = await underPressure(page, server, {
        level: 'warning',
        swapUsedBytes: 3 * 2 ** 30,
        swapTotalBytes: 4 * 2 ** 30,
        freedBytes: 2 ** 29,
      });
      const notice = page.getByTestId('pressure');
      await notice.waitFor();
      assert.match(await notice.innerText(), /moved 3\.0 GB to swap[\s\S]*returned 512 MB/);
      assert.deepEqual(await accessibilityFaults(page), []);
      await shot('memory-pressure-light');
      assert.ok(await notice.isVisible());
      await page.emulateMedia({ colorScheme: 'dark' });
      assert.deepEqual(await accessibilityFaults(page), [], 'dark');
      await shot('memory-pressure-dark');
      await page.emulateMedia({ colorScheme: 'light' });
      const unload = notice.getByRole('button', { name: /^Unload / });
      if ((await unload.count()) > 0) {
        await unload.click();
        await notice.getByText('no model is loaded').waitFor();
      }
      await end();
      await control(server, 'POST', 'engine/start', { model });
      const status = async () => (await stateOf(server)).engine.status;
      await until('the model is loaded again', async () => (await status()) === 'ready');
    },
  ],

  [
    'what if: more requests need more memory, and the choice is saved and applies',
    async ({ page, shot }) => {
      const verdict = page.getByTestId('verdict');
      await verdict.waitFor();
      const need = async () => /Needs ~([\d.]+ [GM]B)/.exec(await verdict.innerText())[1];
      await page.getByLabel('Context').focus();
      await page.keyboard.press('Home');
      await page.getByText('2,048 tokens', { exact: true }).waitFor();
      await page.getByLabel('Concurrent requests').focus();
      await page.keyboard.press('Home');
      await page.getByText('1 concurrent').waitFor();
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
    'the wired limit: the command is shown before it runs, and the default is restored',
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
];
