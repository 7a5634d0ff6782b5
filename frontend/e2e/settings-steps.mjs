// The end-to-end steps of the Settings page.
import assert from 'node:assert/strict';
import { until, goTo } from './helpers.mjs';

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
        return (await (await fetch(`${address}api/settings`, { headers })).json())
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
];
