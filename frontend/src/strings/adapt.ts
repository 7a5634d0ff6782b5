// The Adapt page. app/train/words.go uses the names of the settings.
import { counted, type Text } from './text';

export const adaptPage = {
  title: 'Adapt',
  intro:
    'Train a small adapter for a model with samples of your own. The model itself stays as it ' +
    'is. mlx-lm trains on this computer; nothing is sent elsewhere.',
  newTraining: 'New training',
  noModel:
    'There is no model that can be trained. Get one in MLX or Hugging Face format on the Models ' +
    'page.',
  start: 'Start Training',
  installAndStart: 'Install and Start Training',
  running: 'Another training is running. One runs at a time.',
  checking: 'Checking…',
  ready: 'Ready to start.',
  doesNotFit: 'It does not fit in memory.',
};

export const adaptData = {
  model: 'Model',
  chooseModel: 'Choose a model',
  data: 'Samples',
  dataExample: '/path/to/folder or samples.jsonl',
  dataHelp:
    'A folder with train.jsonl and, if you have one, valid.jsonl; or one JSONL file. Each line ' +
    'is {"messages": […]}, {"prompt": …, "completion": …} or {"text": …}.',
  choose: 'Choose Folder…',
  chooseFile: 'Choose File…',
  drop: 'Drop a folder or a JSONL file to train with it',
  parts: { train: 'Training', valid: 'Validation', test: 'Test' },
  columns: {
    part: 'Part',
    samples: 'Samples',
    tokens: 'Tokens',
    median: 'Median',
    longest: 'Longest',
  },
  forms: {
    messages: 'conversations',
    'prompt and completion': 'prompts with completions',
    text: 'texts',
  } as Record<string, string | undefined>,
  table: 'The samples, lengths in tokens',
  form: (form: Text) => `Samples are ${form}.`,
  split: (file: Text) => `Each tenth sample of ${file} is kept for validation.`,
  noValidation:
    'There is no validation set, so nothing shows when the adapter only learns the samples by ' +
    'heart.',
  cut: (samples: Text, tokens: Text) =>
    `${counted(samples, 'sample is', 'samples are')} longer than ${tokens} tokens and will be cut.`,
  masked: (samples: Text) =>
    `${counted(samples, 'sample has', 'samples have')} no answer within the maximum length.`,
  shown: 'First samples, as the model reads them',
  faults: 'These lines cannot be used:',
  fault: (file: Text, line: Text) => `${file}, line ${line}:`,
};

export const adaptSettings = {
  method: 'Method',
  methods: { lora: 'LoRA', dora: 'DoRA', full: 'Full' },
  methodHelp: {
    lora: 'Trains two small matrices beside each matrix of the model.',
    dora: 'LoRA that also trains the length of each row. Slower, sometimes better.',
    full: 'Trains all weights of the layers. The result is as large as they are.',
  },
  quantized: 'This model is quantized, so full fine-tuning is not possible.',
  iterations: 'Iterations',
  iterationsHelp: (passes: Text) => `Each sample is seen about ${passes} times.`,
  maskPrompt: 'Train only the answers',
  maskPromptHelp: 'Prompts are read and not learned.',
  more: 'More settings',
  name: 'Name',
  nameHelp: 'Of the adapter: letters, digits, - and _.',
  batchSize: 'Batch size',
  batchSizeHelp: 'Samples of one iteration.',
  learningRate: 'Learning rate',
  learningRateHelp: 'How far each iteration goes.',
  layers: 'Number of layers',
  layersHelp: (all: Text) => `The last ones of ${all}; -1: all.`,
  maxSeqLength: 'Maximum length',
  maxSeqLengthHelp: 'Tokens of a sample. Longer ones are cut.',
  gradCheckpoint: 'Compute activations again',
  gradCheckpointHelp: 'Less memory, more time.',
};

export const adaptNeeds = {
  memory: 'Memory',
  need: (fit: Text, need: Text, room: Text) => `${fit}: needs ~${need}, ${room} available.`,
  parts: (weights: Text, parameters: Text, activations: Text, logits: Text) =>
    `Weights ${weights}, trained parameters ${parameters}, activations ${activations}, logits ` +
    `${logits}. Estimated.`,
  loaded: (models: Text) => `Unloading ${models} would free memory.`,
  unload: 'Unload Models',
  python: 'Python',
  pythonReady: 'The Python environment is installed.',
  pythonMissing: (size: Text, packages: Text, source: Text, folder: Text) =>
    `Training needs a Python environment with ${packages}. Headroom makes one of its own, once: ` +
    `about ${size}, from ${source}, in ${folder}. Files are checked by their hashes.`,
  adapter: 'Adapter',
  into: (folder: Text) => `Saved in ${folder}.`,
};

export const trainingCard = {
  label: (name: Text) => `Training ${name}`,
  of: (method: Text, model: Text) => `${method} of ${model}`,
  states: {
    waiting: 'Waiting',
    running: 'Training',
    done: 'Finished',
    failed: 'Failed',
    stopped: 'Paused',
  },
  iteration: (done: Text, all: Text) => `Iteration ${done} of ${all}`,
  left: (duration: Text) => `about ${duration} left`,
  until: (time: Text) => `until ${time}`,
  saved: (iteration: Text) => `checkpoint at iteration ${iteration}`,
  notSaved: 'no checkpoint yet',
  facts: {
    trainLoss: 'Training loss',
    validLoss: 'Validation loss',
    speed: 'Speed',
    peak: 'Peak memory',
    learningRate: 'Learning rate',
  },
  none: '–',
  pause: 'Pause',
  resume: 'Resume',
  tryAgain: 'Try Again',
  keep: 'Keep as It Is',
  keepHelp: 'Ends the training. The adapter stays as it was at the latest checkpoint.',
  discard: 'Discard…',
  dismiss: 'Dismiss',
  chat: 'Chat with It',
  chatLabel: (name: Text) => `Chat with ${name}`,
  appears: 'The adapter appears in the list of models in a moment.',
  adapterAt: (folder: Text) => `The adapter is in ${folder}.`,
  useAs: (id: Text) => `Apps use it as the model ${id}.`,
  full: 'The folder has the weights of the trained layers. This makes a model of them:',
  fuse: (model: Text, adapter: Text) => `headroom fuse "${model}" "${adapter}" "${adapter}-fused"`,
  command: 'Command',
  question: (name: Text) => `Discard the training ${name}?`,
  deleted: (folder: Text) => `What it has saved in ${folder} is deleted.`,
  discardNow: 'Discard',
};

export const lossChart = {
  train: 'Training',
  valid: 'Validation',
  sentence: (name: Text, first: Text, last: Text, least: Text, at: Text, end: Text) =>
    `${name} loss: from ${first} to ${last} at iteration ${end}, least ${least} at ` +
    `iteration ${at}.`,
  empty: 'There are no losses yet.',
  axis: (iteration: Text) => `iteration ${iteration}`,
  table: 'Show as a table',
  tableLabel: 'Losses by iteration',
  iteration: 'Iteration',
};
