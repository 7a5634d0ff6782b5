import type { Text } from './text';

export const welcome = {
  welcomeHeadroom: 'Welcome to Headroom',
  fitsHere: 'What fits here',
  firstAnswer: 'A first answer',
  kvCache: 'What is a KV cache?',
  step: (step: Text, welcomeSteps: Text) => `Step ${step} of ${welcomeSteps}`,
  closeWelcome: 'Close the welcome',
  headroomRunsLanguageModels:
    "Headroom runs language models on this computer, and shows what they take of its memory. They answer in this window, and to every program that speaks OpenAI's API, at this address:",
  endpointAddress: 'endpoint address',
  nothingSentElsewhereQuestions:
    'Nothing is sent elsewhere: questions and answers stay on this computer. Headroom goes on working when this window is closed. The Overview page has the lines to paste into common tools.',
  smallModelComesHeadroom:
    'A small model comes with Headroom, so that something answers at once. It knows a few facts and sums, and shows that all of it works.',
  model: 'A model',
  oneAnswers: (t: Text) => `${t} is the one that answers.`,
  model2: 'the model',
  loading: (model2: Text, suffix: Text) => `Loading ${model2}${suffix}.`,
  worksConversationChatPage: 'It works. This conversation is on the Chat page.',
  back: 'Back',
  next: 'Next',
  openChat: 'Open Chat',
  done: 'Done',
  askAgain: 'Ask again',
  ask: 'Ask',
};

export const whatFits = {
  computer: 'This computer has',
  memoryRoomModel: 'of memory, and room for a model of',
  now: 'now.',
  thatIs: 'That is',
  billionParametersBitsConversatio:
    'billion parameters at 4 bits, with a conversation of usual length.',
  computer2: 'On this computer',
  running: 'Running',
  noModelFitsFound: 'No model that fits was found yet.',
  moreFit: (most: Text) => `${most} more fit.`,
  moreHereCannotStarted: (others: Text, suffix: Text) =>
    `${others} more ${suffix} here that cannot be started now; the Models page says why.`,
  othersComeModelsPage:
    'Others come from the Models page: from the Hugging Face hub, or as a folder dropped onto this window.',
};
