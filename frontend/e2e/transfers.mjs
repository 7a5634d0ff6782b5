// The end-to-end steps about imports and downloads. They start on any page and need a real server,
// because the fake one moves no files.
import assert from 'node:assert/strict';
import { appendFile, cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { goTo, until } from './helpers.mjs';
import { startHub } from './hub.mjs';
import { lookEverywhere, sizes } from './looks.mjs';

const demo = fileURLToPath(new URL('../../app/demo/model/', import.meta.url));
const real = (server) => server.kill && !server.isFake;

const toModels = (page) => goTo(page, 'Models');

/** Points the hub at an address, as a person does. Leaves the sheet open. */
async function mirror(page, url) {
  await page.getByRole('button', { name: 'Download…' }).click();
  const sheet = page.getByRole('dialog', { name: 'Download' });
  await sheet.getByText('Hugging Face account').click();
  await page.getByLabel('Mirror address').fill(url);
  const form = page.locator('form', { has: page.getByLabel('Mirror address') });
  await form.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText(`Models are downloaded from ${url}`).waitFor();
  await sheet.getByText('Hugging Face account').click();
}

/** Presses Tab until an element with this accessible name has the focus. */
async function tabTo(page, name) {
  for (let presses = 0; presses < 60; presses++) {
    const label = await page.evaluate(
      () =>
        document.activeElement?.getAttribute('aria-label') ??
        document.activeElement?.textContent?.trim() ??
        '',
    );
    if (label === name) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab never reaches ${name}`);
}

const words = async (locator) => (await locator.innerText()).replace(/\s+/g, ' ').trim();

export const transferSteps = [
  [
    'before a search, the sheet suggests; without a network it says so, with a way on',
    async ({ page, server, shot }) => {
      if (!real(server)) return 'needs a server of our own';
      await toModels(page);
      await mirror(page, 'http://127.0.0.1:9');
      await page.keyboard.press('Escape');
      const opener = page.getByRole('button', { name: 'Download…' });
      await opener.press('Enter');
      const field = page.getByLabel('Search Hugging Face');
      await until('the field has the focus', () =>
        field.evaluate((element) => element === document.activeElement),
      );
      const offers = page.getByRole('dialog').getByTestId('suggestion');
      await offers.first().waitFor();
      assert.equal(await offers.count(), 3);
      await lookEverywhere(page, shot, 'download-suggestions');
      await page.keyboard.type('qwen');
      await page.keyboard.press('Enter');
      const alert = page.getByRole('dialog').getByRole('alert');
      await alert.waitFor();
      assert.match(
        await words(alert),
        /^127\.0\.0\.1:9 cannot be reached\. Nothing answers at its address\. Check your internet/,
      );
      await alert.getByText('Details').click();
      assert.match(await words(alert), /upstream: dial tcp 127\.0\.0\.1:9/);
      await lookEverywhere(page, shot, 'download-offline');
      await page.keyboard.press('Escape');
      await until('the focus is back', () =>
        opener.evaluate((element) => element === document.activeElement),
      );
    },
  ],

  [
    'a search tells size, need, fit, speed, quantizations, licence and gate, by keyboard alone',
    async ({ page, server, shot }) => {
      if (!real(server)) return 'needs a server of our own';
      const hub = await startHub('tiny/From-The-Hub-4bit');
      try {
        await toModels(page);
        await mirror(page, hub.url);
        await page.keyboard.press('Escape');
        await page.getByRole('button', { name: 'Download…' }).press('Enter');
        await page.keyboard.type('qwen');
        await page.keyboard.press('Enter');
        const found = page.getByTestId('found');
        await found.first().waitFor();
        assert.equal(await found.count(), 2, 'what cannot be run is folded');
        const family = found.filter({ hasText: 'mlx-community' });
        assert.match(
          await words(family),
          /^Qwen3-8B mlx-community qwen3, MLX, 117,000 downloads a month, licence apache-2\.0 /,
        );
        const choices = family.getByTestId('choice');
        const needs = / Needs ~([\d.]+) GB (Fits|Tight|Does not fit) Files Download$/;
        const rows = (await Promise.all([0, 1, 2].map((i) => words(choices.nth(i))))).map((row) => [
          row.replace(needs, '').replace(/~[\d.]+ tok\/s$/, '~'),
          Number(needs.exec(row)?.[1]),
        ]);
        assert.deepEqual(
          rows.map(([row]) => row),
          ['4-bit, group 64 4.6 GB ~', '8-bit, group 64 8.7 GB ~', 'bfloat16 16.4 GB ~'],
        );
        assert.ok(rows[0][1] < rows[1][1] && rows[1][1] < rows[2][1], `${rows}`);
        const gated = await words(found.nth(1));
        for (const part of [
          /^Gated-Qwen-8B makers .* licence llama3\.1 /,
          / Gated: accept its licence on Hugging Face first /,
          / As published 16\.0 GB Need not known Files Download$/,
        ])
          assert.match(gated, part);
        await tabTo(page, 'More quantizations of mlx-community/Qwen3-8B');
        await page.keyboard.press('Enter');
        await choices.nth(3).waitFor();
        assert.match(await words(choices.nth(1)), /^6-bit, group 64 6\.7 GB/);
        await tabTo(page, 'Show 1 unsupported');
        await page.keyboard.press('Enter');
        await found.nth(2).waitFor();
        assert.match(await words(found.nth(2)), /Not supported yet\.$/);
        await lookEverywhere(page, shot, 'download-found');
        await page.keyboard.press('Escape');
      } finally {
        hub.close();
      }
    },
  ],

  [
    'a model from the hub: searched, paused, resumed, shown on every page, and announced',
    async ({ page, server, shot }) => {
      if (!real(server)) return 'needs a server of our own';
      const hub = await startHub('tiny/From-The-Hub-4bit', 60);
      try {
        await toModels(page);
        await mirror(page, hub.url);
        await page.getByLabel('Search Hugging Face').fill('hub');
        await page.keyboard.press('Enter');
        const choice = page.getByTestId('choice');
        await choice.waitFor();
        assert.match(await words(choice), /^\S.* 11\.\d MB .*Needs ~\d+ MB Fits Files Download$/);
        await page.getByRole('button', { name: 'Files of tiny/From-The-Hub-4bit' }).click();
        await page.getByRole('checkbox', { name: /model\.safetensors/ }).waitFor();
        await lookEverywhere(page, shot, 'download');
        await page.getByRole('button', { name: 'Download tiny/From-The-Hub-4bit' }).click();
        await choice.getByText(/^Downloading/).waitFor();
        await page.keyboard.press('Escape');
        const job = page.getByTestId('job');
        await job.getByText(/ MB of /).waitFor();
        const sidebar = page.getByTestId('sidebar-jobs');
        assert.match(await words(sidebar), /^Downloading From-The-Hub-4bit \d+ %/);
        await job.getByRole('button', { name: 'Stop', exact: true }).click();
        await job.getByText(/^Paused at /).waitFor();
        await sidebar.waitFor({ state: 'detached' });
        const rows = page.getByTestId('model').filter({ hasText: 'From-The-Hub' });
        assert.equal(await rows.count(), 0, 'a card, and no row beside it');
        await lookEverywhere(page, shot, 'download-stopped');
        await job.getByRole('button', { name: 'Resume' }).click();
        await goTo(page, 'Chat');
        await sidebar.waitFor();
        await shot('download-elsewhere-light');
        await sidebar.press('Enter');
        await page.getByRole('table', { name: 'Models' }).waitFor();
        const note = page.getByTestId('arrival');
        await note.getByText('From-The-Hub-4bit is ready').waitFor();
        await note.getByRole('button', { name: 'Start' }).waitFor();
        await job.getByText(/, verified$/).waitFor();
        await page.getByRole('button', { name: 'Download…' }).click();
        await page.getByLabel('Search Hugging Face').fill('hub');
        await page.keyboard.press('Enter');
        await choice.getByText('Installed').waitFor();
        await page.keyboard.press('Escape'); // clears the field
        await page.keyboard.press('Escape');
        await page.getByRole('button', { name: 'Dismiss: tiny/From-The-Hub-4bit' }).click();
        await page.getByRole('button', { name: 'Dismiss: From-The-Hub-4bit' }).click();
      } finally {
        hub.close();
      }
    },
  ],

  [
    'a folder is imported, and a folder without a model is refused with the reason',
    async ({ page, server, shot }) => {
      if (!real(server)) return 'needs a server of our own';
      const folder = await mkdtemp(join(tmpdir(), 'headroom-e2e-import-'));
      try {
        await cp(demo, join(folder, 'Ada\'s "own" model'), { recursive: true });
        await toModels(page);
        await page.getByRole('button', { name: 'Import…' }).click();
        const path = page.getByLabel('Model folder');
        await path.fill(join(folder, 'nothing'));
        await page.keyboard.press('Enter');
        await page
          .getByTestId('import-item')
          .getByText(/there is no such file or folder/i)
          .waitFor();
        await path.fill(folder);
        await page.keyboard.press('Enter');
        await page.getByTestId('import-item').getByText('Ada\'s "own" model').waitFor();
        await lookEverywhere(page, shot, 'import');
        await page.getByRole('button', { name: /^Copy 1 model, / }).click();
        await page
          .getByTestId('job')
          .getByText(/, verified$/)
          .waitFor();
        await page
          .getByRole('button', { name: /^Dismiss: Ada's/ })
          .first()
          .click();
        await page.getByTestId('job').waitFor({ state: 'detached' });
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  ],

  [
    'a model is packed in another way, and the result is in the list',
    async ({ page, server, shot }) => {
      if (!real(server)) return 'needs a server of our own';
      await toModels(page);
      const rows = page.getByTestId('model');
      const demoRow = rows.filter({ hasText: /headroom.demo/i }).first();
      await demoRow.getByRole('button', { name: /^headroom.demo/i }).click();
      await page.getByRole('button', { name: /^Convert to another quantization: / }).click();
      const sheet = page.getByRole('dialog', { name: /^Convert / });
      const status = sheet.getByTestId('conversion');
      await status.getByText(/^The result has /).waitFor();
      const size = await status.innerText();
      await sheet.getByLabel('Bits').selectOption('3');
      await until('the size follows', async () => {
        const now = await status.innerText();
        return /^The result has /.test(now) && now !== size;
      });
      assert.match(await status.innerText(), /(Fits|Tight): needs ~[\d.]+ [GM]B, [\d.]+ GB avail/);
      await lookEverywhere(page, shot, 'convert');
      await sheet.getByLabel('Name').fill('Converted-3bit');
      await sheet.getByRole('button', { name: 'Convert', exact: true }).click();
      await sheet.waitFor({ state: 'detached' });
      const result = rows.filter({ hasText: 'Converted-3bit' });
      await result.getByText('3-bit', { exact: false }).waitFor({ timeout: 120_000 });
      await page
        .getByRole('button', { name: /^Dismiss: Converted-3bit/ })
        .first()
        .click();
      await page.getByTestId('job').waitFor({ state: 'detached' });
      await result.getByRole('button', { name: /^Converted-3bit/ }).click();
      await page.getByRole('button', { name: /^Move to Trash: / }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Move to Trash' }).click();
      await until('it is gone', async () => (await result.count()) === 0);
    },
  ],

  [
    'finished imports leave room for the list, at 200 % zoom and in small windows',
    async ({ page, server, shot }) => {
      if (!real(server)) return 'needs a server of our own';
      const folder = await mkdtemp(join(tmpdir(), 'headroom-e2e-import-'));
      try {
        // Spaces behind their configs make them three models.
        for (const [index, name] of ['One', 'Two', 'Three'].entries()) {
          await cp(demo, join(folder, name), { recursive: true });
          await appendFile(join(folder, name, 'config.json'), ' '.repeat(index + 1));
        }
        await toModels(page);
        await page.getByRole('button', { name: 'Import…' }).click();
        await page.getByLabel('Model folder').fill(folder);
        await page.keyboard.press('Enter');
        await page.getByRole('button', { name: /^Copy 3 models, / }).click();
        const panel = page.getByTestId('model-details');
        if (await panel.count()) await panel.getByRole('button', { name: 'Close' }).click();
        const line = page.getByTestId('finished-jobs');
        await line.getByText('3 finished').waitFor();
        const covered = [];
        const hidden = [];
        for (const [name, size] of Object.entries({
          ...sizes,
          '-low': { width: 760, height: 380 },
        })) {
          await page.setViewportSize(size);
          const row = page.getByTestId('model').first();
          if ((await line.boundingBox()).height < 24) hidden.push(name);
          await row.scrollIntoViewIfNeeded();
          const { y, height } = await row.boundingBox();
          if (y < 0 || y + height > size.height) covered.push(name);
        }
        assert.deepEqual({ covered, hidden }, { covered: [], hidden: [] });
        await lookEverywhere(page, shot, 'models-finished');
        await tabTo(page, '3 finished');
        await page.keyboard.press('Enter');
        assert.equal(await page.getByTestId('job').count(), 3);
        await tabTo(page, 'Dismiss all');
        await page.keyboard.press('Enter');
        await line.waitFor({ state: 'detached' });
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  ],
];
