// The steps of the end-to-end test, in order: each file has those of one page.
//
// A step gets the tools of run.mjs and throws when the page is wrong. A returned string says why
// the step was skipped.
import { adaptSteps } from './adapt-steps.mjs';
import { agentsSteps } from './agents-steps.mjs';
import { machinesSteps } from './machines-steps.mjs';
import { answerSteps } from './answer-steps.mjs';
import { cacheSteps } from './cache-steps.mjs';
import { chatSteps } from './chat-steps.mjs';
import { frameSteps } from './frame-steps.mjs';
import { largeSteps } from './large-steps.mjs';
import { memorySteps } from './memory-steps.mjs';
import { modelsSteps } from './models-steps.mjs';
import { engineSteps, openingSteps, overviewSteps } from './overview-steps.mjs';
import { requestSteps } from './request-steps.mjs';
import { settingsSteps, storedSteps } from './settings-steps.mjs';
import { sheetSteps } from './sheet-steps.mjs';
import { transferSteps } from './transfers.mjs';
import { systemSteps } from './system-steps.mjs';
import { threadSteps } from './thread-steps.mjs';
import { similaritySteps, trySteps } from './try-steps.mjs';
import { welcomeSteps } from './welcome.mjs';
import { windowSteps } from './window-steps.mjs';

const all = [
  ...openingSteps,
  ...welcomeSteps,
  ...overviewSteps,
  ...answerSteps,
  ...chatSteps,
  ...threadSteps,
  ...engineSteps,
  ...cacheSteps,
  ...requestSteps,
  ...trySteps,
  ...agentsSteps,
  ...modelsSteps,
  ...adaptSteps,
  ...settingsSteps,
  ...machinesSteps,
  ...memorySteps,
  ...systemSteps,
  ...transferSteps,
  ...sheetSteps,
  ...storedSteps,
  ...similaritySteps,
  ...largeSteps,
  ...frameSteps,
  ...windowSteps,
];

const closed = [
  'the welcome is closed',
  async ({ page, server }) => {
    await page.goto(server.url);
    if (!server.isFake) {
      await page.getByRole('dialog').waitFor();
      await page.keyboard.press('Escape');
    }
    await page.getByTestId('state').waitFor();
  },
];

/** With ONLY=REGEXP: the steps whose names match, after the welcome was closed or seen. */
const { ONLY } = process.env;
const chosen = all.filter(([name]) => new RegExp(ONLY ?? '').test(name));
export const steps = ONLY && chosen[0] !== welcomeSteps[0] ? [closed, ...chosen] : chosen;
