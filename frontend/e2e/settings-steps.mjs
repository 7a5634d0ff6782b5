// The end-to-end steps of the Settings page.
import assert from 'node:assert/strict';
import { ask, finished, goTo, ready, shortText, until } from './helpers.mjs';

export const settingsSteps = [
  [
    'a setting applies at once and is undone, and the log is shown',
    async ({ page, server, shot }) => {
      await goTo(page, 'Settings');
      const rest = page.getByLabel('Unload when idle');
      await rest.selectOption('30');
      await page.getByRole('status').filter({ hasText: 'Saved.' }).waitFor();
      const kept = async () => {
        const [address, fragment] = server.url.split('#');
        const headers = { 'X-Headroom-Token': new URLSearchParams(fragment).get('token') };
        return (await (await fetch(`${address}control/settings`, { headers })).json())
          .idleUnloadMinutes;
      };
      assert.equal(await kept(), 30);
      await page.getByRole('button', { name: 'Undo' }).click();
      await until(
        'the value is restored',
        async () => (await rest.inputValue()) === '0' && (await kept()) === 0,
      );
      assert.equal(
        await page.getByLabel('Port', { exact: true }).isDisabled(),
        true,
        'the port of serve is set by a flag',
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
    'a key is made, shown once, needed from then on, and removed',
    async ({ page, server, shot }) => {
      await goTo(page, 'Settings');
      await page.getByRole('button', { name: 'New key…' }).click();
      const sheet = page.getByRole('dialog', { name: 'New API key' });
      await sheet.getByLabel('Name').fill('End to end');
      await sheet.getByLabel('Requests per minute').fill('100');
      await sheet.getByRole('button', { name: 'Make key' }).click();
      const key = await page.getByTestId('key-text').innerText();
      await shot('settings-key');
      const status = async (headers) =>
        (await fetch(new URL('/v1/models', server.url), { headers })).status;
      if (!server.isFake) {
        assert.equal(await status({}), 401, 'without a key');
        assert.equal(await status({ 'X-Api-Key': key }), 200, 'with the key');
      }
      await sheet.getByRole('button', { name: 'Done' }).click();
      assert.equal(await page.getByText(key).count(), 0, 'the key is shown once');
      await page.getByRole('button', { name: 'Remove End to end' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
      await page.getByRole('status').filter({ hasText: 'End to end was removed.' }).waitFor();
      if (!server.isFake) assert.equal(await status({}), 200, 'without keys');
    },
  ],
];

/** Deletes everything, so no later step may need a conversation. */
export const storedSteps = [
  [
    'Settings shows what is stored, and everything is deleted after a question',
    async ({ page, shot }) => {
      await goTo(page, 'Chat');
      await page.getByRole('button', { name: 'New chat', exact: true }).click();
      await finished(await ask(page, shortText));
      await goTo(page, 'Settings');
      const row = (kind) => page.getByTestId('stored').filter({ hasText: kind });
      await until('the chat is stored', async () => {
        await goTo(page, 'Overview');
        await goTo(page, 'Settings');
        await row('Chats').waitFor();
        return /\d [KMG]B$/.test(await row('Chats').innerText());
      });
      await page.evaluate(() => localStorage.setItem('headroom.step', '"kept?"'));
      await page.getByRole('button', { name: 'Delete everything…' }).click();
      const dialog = page.getByRole('dialog', { name: 'Delete everything?' });
      await dialog.getByText(/^Chats \(\d.*are deleted for good/).waitFor();
      await shot('delete-everything-light');
      await page.keyboard.press('Escape');
      await until('Escape declines', async () => (await dialog.count()) === 0);
      assert.match(await row('Chats').innerText(), /\d [KMG]B$/);
      await page.getByRole('button', { name: 'Delete everything…' }).click();
      await dialog.getByRole('button', { name: 'Delete everything' }).click();
      await page
        .getByRole('status')
        .filter({ hasText: /^Deleted \d/ })
        .waitFor();
      // The folder of the cache has a new index at once, so only its page can say that it is empty.
      await until('no chat is stored', async () => /None$/.test(await row('Chats').innerText()));
      assert.equal(await page.evaluate(() => localStorage.getItem('headroom.step')), null);
      await goTo(page, 'Overview');
      await ready(page);
      await goTo(page, 'Cache');
      await page.getByText('Nothing is cached yet').waitFor();
      await goTo(page, 'Chat');
      await until(
        'no chat is listed',
        async () => !/Repeat this text/.test(await page.getByRole('main').innerText()),
      );
    },
  ],
];
