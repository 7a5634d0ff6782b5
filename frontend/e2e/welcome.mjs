// The end-to-end step of the welcome, partly with the keyboard. It runs first, because a first
// start happens only once.
import assert from 'node:assert/strict';
import { look } from './transfers.mjs';

export const welcomeSteps = [
  [
    'the welcome of a first start leads to an answer',
    async ({ page, server, shot }) => {
      if (!server.kill || server.isFake) return 'needs a server of our own';
      await page.goto(server.url);
      const dialog = page.getByRole('dialog', { name: 'Welcome to Headroom' });
      await dialog.waitFor();
      await look(page, shot, 'welcome-1');
      assert.match(await page.getByTestId('welcome-endpoint').innerText(), /^http:\/\/.+\/v1$/);
      await page.keyboard.press('Tab');
      for (const name of ['What fits here', 'A first answer']) {
        await page.getByRole('button', { name: 'Next' }).press('Enter');
        await page.getByRole('dialog', { name }).waitFor();
        await look(page, shot, name === 'A first answer' ? 'welcome-3' : 'welcome-2');
      }
      await page.getByRole('button', { name: 'Ask', exact: true }).press('Enter');
      await page.getByTestId('welcome-done').waitFor({ timeout: 60_000 });
      assert.match(await page.getByTestId('answer').innerText(), /\w{3}/);
      await look(page, shot, 'welcome-4');
      await page.getByRole('button', { name: 'Done' }).click();
      await page.reload();
      const pages = page.getByRole('navigation', { name: 'Pages' });
      await page.getByTestId('state').waitFor();
      await pages.getByRole('button', { name: 'Settings' }).click();
      const again = page.getByRole('button', { name: 'Show again: the welcome' });
      await again.waitFor(); // the settings have been read
      assert.equal(await page.getByRole('dialog').count(), 0, 'it is shown once');
      await again.click();
      await dialog.waitFor();
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      await pages.getByRole('button', { name: 'Chat' }).click();
      await page
        .getByRole('button', { name: /^Delete: / })
        .first()
        .click();
      await page.getByText(/^Deleted: /).waitFor();
      // Without this, the next address differs only in its fragment, and the page would not reload.
      await page.goto('about:blank');
    },
  ],
];
