// The welcome of a first start.
import { counted, type Text } from './text';

export const welcome = {
  titles: ['Welcome to Headroom', 'Ready to chat'],
  step: (step: Text, steps: Text) => `Step ${step} of ${steps}`,
  close: 'Close the welcome',
  introduction:
    'Headroom runs language models on this computer and shows exactly how much memory they use.',
  private: 'Everything stays on this computer.',
  keepsRunning: 'Close this window and Headroom keeps running in the menu bar.',
  otherApps: 'From other apps',
  connect: 'Connect any app that speaks the OpenAI API:',
  address: 'endpoint address',
  back: 'Back',
  next: 'Next',
  openChat: 'Open Chat',
};

export const whatFits = {
  memory: (totalBytes: Text, availableBytes: Text) =>
    `This computer has ${totalBytes} of memory. ${availableBytes} is available for a model.`,
  here: 'On this computer',
  details: (sizeBytes: Text, verdict: Text) => `${sizeBytes}. ${verdict}.`,
  running: 'Running',
  start: 'Start',
  startLabel: (name: Text) => `Start ${name}`,
  moreFit: (count: Text) => counted(count, 'more fits.', 'more fit.'),
};

/** What answers when the chat opens. */
export const progress = {
  downloading: (name: Text) => `Downloading ${name}`,
  failed: (name: Text) => `${name} could not be downloaded.`,
  startsItself: 'It starts by itself when it is here. You can chat with the demo model until then.',
  loading: (name: Text) => `Loading ${name}…`,
  ready: (name: Text) => `${name} is ready.`,
  starts: (name: Text) => `${name} starts when you open the chat.`,
  none: 'No model is here yet.',
  demo:
    'A tiny demo model is included so you can try it now. It is a toy that knows a few facts and ' +
    'sums: get a real one next.',
};
