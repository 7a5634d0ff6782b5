// The end-to-end steps about imports and downloads. They start on any page and need a real server,
// because the fake one moves no files.
import assert from 'node:assert/strict';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { accessibilityFaults } from './axe.mjs';
import { startHub } from './hub.mjs';

const demo = fileURLToPath(new URL('../../app/demo/model/', import.meta.url));
const real = (server) => server.kill && !server.isFake;

async function toModels(page) {
  await page
    .getByRole('navigation', { name: 'Pages' })
    .getByRole('button', { name: 'Models' })
    .click();
}

/** Takes a picture in both themes and checks accessibility, in a small window too. */
export async function look(page, shot, name) {
  for (const theme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme: theme });
    for (const size of [
      { width: 760, height: 560 },
      { width: 1100, height: 720 },
    ]) {
      await page.setViewportSize(size);
      assert.deepEqual(await accessibilityFaults(page), [], `${name}, ${theme}, ${size.width} px`);
    }
    await shot(`${name}-${theme}`);
  }
}

export const transferSteps = [
  [
    'a model from the hub: searched, paused, resumed, and announced',
    async ({ page, server, shot }) => {
      if (!real(server)) return 'needs a server of our own';
      const hub = await startHub('tiny/From-The-Hub-4bit');
      try {
        await toModels(page);
        await page.getByRole('button', { name: 'Download…' }).click();
        await page.getByText('Hugging Face account').click();
        await page.getByLabel('Mirror address').fill(hub.url);
        const mirror = page.locator('form', { has: page.getByLabel('Mirror address') });
        await mirror.getByRole('button', { name: 'Save', exact: true }).click();
        await page.getByText(`Models are downloaded from ${hub.url}`).waitFor();
        await page.getByLabel('Search Hugging Face').fill('hub');
        await page.keyboard.press('Enter');
        await page.getByRole('button', { name: 'Files', exact: true }).click();
        await page.getByRole('checkbox', { name: /model\.safetensors/ }).waitFor();
        await look(page, shot, 'download');
        await page.getByRole('button', { name: 'Download tiny/From-The-Hub-4bit' }).click();
        const job = page.getByTestId('job');
        await job.getByText(/ MB of /).waitFor();
        await job.getByRole('button', { name: 'Stop', exact: true }).click();
        await job.getByText(/^Paused at /).waitFor();
        await look(page, shot, 'download-stopped');
        await job.getByRole('button', { name: 'Resume' }).click();
        await page.getByTestId('arrival').getByText('From-The-Hub-4bit is ready').waitFor();
        await job.getByText(/, verified$/).waitFor();
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
        await look(page, shot, 'import');
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
];
