// The names under which the pages know the control API's documents, and the types of chat.
//
// schema.ts is generated from the API's own description; this file holds only what that description
// cannot say. The chat types belong to the OpenAI-compatible endpoint, which it does not cover.
import type { Sampling } from '../sampling';
import type * as schema from './schema';

export type State = schema.HostState;
export type Engine = schema.HostEngineState;
export type EngineStatus = Engine['status'];
export type Endpoint = schema.HostEndpoint;
/** What happened, why, and what to do, in the order in which a card shows them. */
export type ApiError = schema.HostError;

export type Memory = schema.MemoryLedger;
export type Segment = schema.MemorySegment;
export type SegmentKind = Segment['kind'];
/** The origin of a figure; estimates are shown with a tilde. */
export type Source = Segment['source'];
export type WhatIf = schema.HostWhatIf;
export type WhatIfFormat = schema.HostWhatIfFormat;
export type Fit = WhatIfFormat['fits'];
export type Wired = schema.WiredStatus;
/** Sets the limit until the next restart or permanently, or restores the system's default. */
export type WiredAction = keyof schema.WiredCommands;

/** The parameters of a what-if calculation. Empty and 0 are the model's defaults. */
export interface WhatIfQuery {
  /** Empty: the running model, or the bundled one. */
  model: string;
  /** The context of each stream. */
  contextTokens: number;
  /** Streams that run at once. */
  streams: number;
}

/** Coding agents, and what is written for one or taken back. */
export type AgentList = schema.AgentList;
export type Agent = schema.AgentsListed;
export type AgentPlan = schema.AgentPlan;
export type AgentChange = schema.AgentsPlan;
export type AgentLine = schema.AgentsLine;
/** Whether other machines may use this one, the code that is shown, and what was found. */
export type Sharing = schema.Sharing;
export type SharingChange = schema.SharingChange;
export type JoinedMachine = schema.JoinedMachine;
/** Another machine whose engines can be used. */
export type Machine = schema.Machine;
/** What can be done with an agent. */
export type AgentAction = 'write' | 'undo' | 'launch';
export type Speed = schema.HostSpeed;
export type SpeedSample = schema.HostSample;
export type Power = schema.HostPowerState;
/** What is known about updates of Headroom. */
export type UpdateStatus = schema.UpdateStatus;
export type UpdatePhase = UpdateStatus['phase'];
/** One part of a bug report. */
export type ReportPart = schema.ReportPart;
/** How short memory is, and what can be done about it. */
export type Pressure = schema.HostPressureState;
export type Measure = schema.PowerMeasure;
export type RequestInFlight = schema.HostRequest;
export type FinishedRequest = schema.HostFinished;
export type Reuse = schema.HostReuse;
/** Why part of a prompt was computed again: engine/cachemiss explains it. */
export type CacheMiss = schema.HostCacheMiss;
export type CacheMissCause = CacheMiss['cause'];

export type Model = schema.HostModel;
export type ModelState = Model['state'];
/** A model that a machine without models could begin with. */
export type ModelDownload = schema.HostDownload;
export type ModelPlace = schema.HostPlace;
export type ModelList = schema.HostModelList;
export type ModelChange = schema.HostModelChange;
export type ModelsEvent = schema.ModelsEvent;

/** The check of a model against plain decoding, and one comparison of it. */
export type ModelCheck = schema.HostModelCheck;
export type CheckRow = schema.HostCheckRow;
export type CheckToken = schema.HostCheckToken;

/** How one model is loaded and sampled. A missing value is the default. */
export interface ModelOptions extends Omit<schema.SettingsModel, 'templateArguments'> {
  /** Variables for the chat template. */
  templateArguments?: Record<string, unknown>;
}

export interface ModelSettings {
  settings: ModelOptions;
  /** The settings that the command line fixes, for every model. */
  readOnly: (keyof ModelOptions)[];
}

/** The cache on disk, and the memory of cached prefixes that no running request uses. */
export type Cache = schema.CacheStats;
/** What the cache keeps of one conversation. Its key is empty when only memory holds it. */
export type Conversation = schema.CacheConversation;
export type ConversationEntry = schema.CacheEntry;
export type ConversationDetail = schema.CacheDetail;
export type ConversationList = schema.CacheList;
export type Removed = schema.CacheRemoved;
/** What is stored on this computer, by kind. */
export type StoredItem = schema.StoredItem;
/** What to delete in addition to chats, cache, jobs and log. */
export type StoredChoice = Pick<Required<schema.DeleteStored>, 'settings' | 'models'>;
export type StoredDeleted = schema.StoredDeleted;
/** A size of 0 is the default; below 0 there is no limit. */
export type CacheSettings = schema.CacheSettings;
export type CacheChange = schema.CacheChange;
/** A move of the cache that has begun, and the id of its job. */
export type CacheMove = schema.CacheMove;

/** A named API key; lastUsedAt 0 means never. */
export type ApiKey = schema.APIKey;
export type ApiKeyChange = Required<schema.APIKeyChange>;
export type NewApiKey = schema.NewAPIKey;

export type GeneralSettings = schema.GeneralSettings;
export type GeneralChange = schema.GeneralChange;
/** Whether the engine starts with Headroom; empty: if it ran when Headroom quit. */
export type Launch = GeneralSettings['launch'];
export type MenuBarFigure = GeneralSettings['menuBarFigure'];
export type LogLevel = GeneralSettings['logLevel'];
export type LogLine = schema.LogsLine;
export type LogLines = schema.LogLines;

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

export interface ChatRequest {
  model: string;
  messages: ChatMessage[];
  /** Sent as chat_template_kwargs.enable_thinking. */
  thinking: boolean;
  sampling: Sampling;
  /** The functions that the model may call, in the form of a request's `tools`. */
  tools: unknown[];
  /** The server writes nothing of the request to disk. */
  private?: boolean;
}

export interface ChatUsage {
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  /** The reasoning tokens among completionTokens; null when the server does not count them. */
  reasoningTokens: number | null;
  /** The tokens that were proposed ahead, and how many of them the model chose, too. */
  draftTokens: number;
  acceptedTokens: number;
  /** Measured by the engine; 0 for a single token, null when the server does not report it. */
  tokensPerSecond: number | null;
}

/** The parts of a streamed answer, in order of arrival. */
export type ChatEvent =
  | { type: 'prefill'; doneTokens: number; totalTokens: number }
  | { type: 'reasoning'; text: string }
  /** accepted: the text was proposed ahead, and the model chose it, too. */
  | { type: 'content'; text: string; accepted?: true }
  /** A part of the tool call at that index: its name once, its arguments in pieces of JSON. */
  | { type: 'call'; index: number; name: string; arguments: string }
  | { type: 'finish'; reason: string }
  | { type: 'usage'; usage: ChatUsage };
