// The end-to-end steps of the Models page.
import assert from 'node:assert/strict';
import { accessibilityFaults } from './axe.mjs';
import { lookEverywhere, sizes } from './looks.mjs';
import { text, until, goTo, ready, demoName } from './helpers.mjs';

export const modelsSteps = [
  [
    'Models lists the models with their needs, and searches them',
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
    'a setting of a model is saved and undone',
    async ({ page, shot }) => {
      const details = page.getByTestId('model-details');
      await details.getByText('How it is loaded').click();
      await details.getByLabel(/^Longest context/).fill('4096');
      await details.getByLabel(/^Longest context/).press('Tab');
      await details.getByText(/^Saved/).waitFor();
      const undo = details.getByRole('button', { name: 'Undo' });
      const unseen = [];
      for (const [name, size] of Object.entries(sizes)) {
        await page.setViewportSize(size);
        await details.getByLabel(/^Longest context/).scrollIntoViewIfNeeded();
        const panel = await details.boundingBox();
        const { y, height } = await undo.boundingBox();
        if (y < panel.y || y + height > Math.min(panel.y + panel.height, size.height))
          unseen.push(name);
      }
      assert.deepEqual(unseen, [], 'Undo is in sight beside the changed field');
      await lookEverywhere(page, shot, 'model-saved');
      await undo.click();
      await until(
        'the field is empty again',
        async () => (await details.getByLabel(/^Longest context/).inputValue()) === '',
      );
      await page.getByLabel('Memory at').selectOption({ index: 0 });
    },
  ],

  [
    'in the tools above the list, no button is alone on a row',
    async ({ page }) => {
      const alone = [];
      for (const width of [390, 550, 700, 760, 800, 850, 1100, 1600]) {
        await page.setViewportSize({ width, height: 600 });
        const rows = await page.evaluate(() => {
          const list = new Map();
          for (const one of document.querySelectorAll('main header .tools > *')) {
            const { top, height } = one.getBoundingClientRect();
            const middle = Math.round((top + height / 2) / 8);
            list.set(middle, [...(list.get(middle) ?? []), one.localName]);
          }
          return [...list.values()];
        });
        if (rows.some((row) => row.length === 1 && row[0] === 'button')) alone.push(width);
        if (width >= 760 && width !== 850 && rows.length > 1) alone.push(`${width}: two rows`);
      }
      await page.setViewportSize(sizes['']);
      assert.deepEqual(alone, []);
    },
  ],

  [
    'a model is checked against plain decoding, and a check is stopped',
    async ({ page, shot }) => {
      const check = page.getByTestId('model-check');
      const status = check.getByRole('status');
      await check.getByRole('button', { name: 'Check this model' }).press('Enter');
      await check.getByRole('button', { name: 'Check again' }).waitFor({ timeout: 180_000 });
      assert.match(await status.innerText(), /^All \d+ ways that must equal plain decoding do/);
      const rows = check.getByTestId('comparison');
      assert.match(
        await rows.nth(0).innerText(),
        /one by one\s+Reference\s+8 answers, [\d,]+ tokens/,
      );
      assert.match(await rows.nth(1).innerText(), /In a crowd\s+Equal\s+Equal: 8 of 8 answers/);
      await rows.nth(1).scrollIntoViewIfNeeded();
      assert.deepEqual(await accessibilityFaults(page), []);
      await shot('models-check-light');
      // The keyboard's focus stays on the button.
      await page.keyboard.press('Enter');
      await check.getByRole('button', { name: 'Stop' }).waitFor();
      await page.keyboard.press('Enter');
      await until('it is stopped', async () => (await status.innerText()) === 'Stopped.');
    },
  ],

  [
    'one click starts another model, another click unloads it',
    async ({ page }) => {
      await page.getByRole('button', { name: 'Start: Tiny-Qwen-4bit' }).click();
      await page.getByRole('button', { name: 'Unload: Tiny-Qwen-4bit' }).waitFor();
      await page.getByRole('button', { name: 'Unload: Tiny-Qwen-4bit' }).click();
      await page.getByRole('button', { name: 'Start: Tiny-Qwen-4bit' }).waitFor();
    },
  ],

  [
    'a finished download is announced, and the model starts from the note',
    async ({ page, server, shot }) => {
      if (!server.finishDownload) return 'the test cannot complete a download on this server';
      await page
        .getByTestId('model')
        .filter({ hasText: 'Half-Here-8bit' })
        .getByRole('button', { name: /^Half-Here/ })
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
    'a model is moved to the Trash, after a question',
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
      // It is still loaded, unless its memory was needed.
      const start = page.getByRole('button', { name: 'Start: ' + (await demoName(page)) });
      if ((await start.count()) > 0) await start.click();
      await goTo(page, 'Overview');
      await ready(page);
    },
  ],
];
