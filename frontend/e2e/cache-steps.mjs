// The end-to-end steps of the Cache page.
import assert from 'node:assert/strict';
import { sentences, text, until, askFromOutside } from './helpers.mjs';

export const cacheSteps = [
  [
    'Cache lists the conversations, shortly after the answers',
    async ({ page, server, shot }) => {
      await page.keyboard.press('Control+5');
      for (const trip of ['Lisbon', 'Porto', 'Faro'])
        await askFromOutside(server, `Plan a week in ${trip}. ${sentences(30)}`);
      const rows = page.getByTestId('cached-conversation');
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
        'the table shows the selection of the map',
      );
      await until('its files are counted', async () =>
        /\d+ (partial )?block/.test(await text(page, 'details')),
      );
      await shot('cache-light');
    },
  ],

  [
    'a conversation is found, pinned and deleted',
    async ({ page, shot }) => {
      const rows = page.getByTestId('cached-conversation');
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
        'Escape declines',
        async () => (await dialog.count()) === 0 && (await rows.count()) === 1,
      );
      await rows
        .first()
        .getByRole('button', { name: /^Delete from cache: / })
        .click();
      await dialog.getByRole('button', { name: 'Delete' }).click();
      await page.getByText(/^Deleted \d+ files?, /).waitFor();
      await page.getByRole('searchbox', { name: 'Filter conversations' }).fill('');
    },
  ],

  [
    'a request shows the cause of its cache miss, with the difference marked',
    async ({ page, server, shot }) => {
      await page.getByRole('tab', { name: 'Requests' }).click();
      for (const minute of [1, 2])
        await askFromOutside(server, `It is 2026-11-20 10:0${minute}. ${sentences(30)}`);
      // The engine names a changed time as the cause. The fake server knows only edited messages.
      const request = page.getByTestId('finished').first();
      await request.getByText(/date or time changed|message was edited/).waitFor();
      await request.getByRole('button').click();
      const details = page.getByTestId('cache-miss');
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
];
