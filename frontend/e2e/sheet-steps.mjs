// The end-to-end steps about dialogs: the command palette and the Chat page's answer settings. Each
// is checked with axe at every size and in both themes.
import assert from 'node:assert/strict';
import { accessibilityFaults } from './axe.mjs';
import { views } from './looks.mjs';

const sizes = {
  '': { width: 1100, height: 720 },
  '-large': { width: 1600, height: 1000 },
  '-small': { width: 760, height: 560 },
};

async function everywhere(page, shot, name) {
  const faults = [];
  for (const { suffix, size, theme } of views(sizes)) {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme: theme });
    await shot(`${name}${suffix}-${theme}`);
    faults.push(
      ...(await accessibilityFaults(page)).map((fault) => `${name}${suffix}, ${theme}: ${fault}`),
    );
  }
  await page.setViewportSize(sizes['']);
  assert.deepEqual(faults, []);
}

export const sheetSteps = [
  [
    'the palette opens a page by its name, and Escape changes nothing',
    async ({ page, shot }) => {
      await page.keyboard.press('Control+1');
      await page.keyboard.press('Control+k');
      const field = page.getByRole('combobox', { name: 'Command' });
      await field.waitFor();
      await everywhere(page, shot, 'palette');
      await page.keyboard.press('Escape');
      await field.waitFor({ state: 'detached' });
      await page.keyboard.press('Control+k');
      await field.fill('mem');
      await page.keyboard.press('Enter');
      await page.getByTestId('part').first().waitFor();
      assert.equal(await field.count(), 0);
    },
  ],

  [
    'answer settings are saved, and are sent with the next question',
    async ({ page, shot }) => {
      await page.keyboard.press('Control+2');
      await page.getByRole('button', { name: 'Answer settings' }).click();
      const sheet = page.getByRole('dialog', { name: 'Answer settings' });
      await everywhere(page, shot, 'answer-settings');
      await sheet.getByLabel('Maximum tokens').fill('3');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Escape');
      await sheet.waitFor({ state: 'detached' });
      const sent = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'));
      await page
        .getByRole('textbox', { name: 'Message' })
        .fill('Tell me a story about Ada and a fox.');
      await page.keyboard.press('Control+Enter');
      assert.equal((await sent).postDataJSON().max_tokens, 3);
      await page.getByTestId('stop').waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Answer settings, changed' }).click();
      await sheet.getByLabel('Maximum tokens').fill('');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Answer settings', exact: true }).waitFor();
    },
  ],
];
