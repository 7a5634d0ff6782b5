// The settings and the log with which the fake begins.
import type { ApiKey, ApiKeyChange, CacheSettings, GeneralSettings, LogLine } from '../types';

export const defaultPort = 11811;

export function fakeGeneral(): GeneralSettings {
  return {
    port: defaultPort,
    apiKey: '',
    namedKeys: 0,
    allowHosts: [],
    allowOrigins: [],
    ollamaPort: false,
    ollamaDelete: false,
    modelFolders: [],
    importFolder: '',
    launch: '',
    defaultModel: '',
    idleUnloadMinutes: 0,
    loadOnRequest: true,
    requestWaitMinutes: 0,
    logLevel: 'info',
    startAtLogin: false,
    notifications: true,
    menuBarFigure: '',
    saveOnBattery: true,
    freeUnderPressure: true,
    throttleWhenHot: true,
    updateFeed: '',
    updateKey: '',
    welcomed: true,
    path: '/home/you/.config/headroom/settings.json',
    readOnly: [],
    needsRestart: [],
  };
}

/** One key with limits, and one that was never used. */
export function fakeKeys(now = Date.now()): ApiKey[] {
  return [
    {
      id: '5a1f03c29e7b8d46',
      name: 'Laptop',
      models: ['headroom-demo'],
      requestsPerMinute: 60,
      concurrentRequests: 2,
      priority: 'batch',
      paired: false,
      createdAt: now - 86_400_000,
      requests: 1204,
      promptTokens: 3_400_000,
      generatedTokens: 91_000,
      lastUsedAt: now - 60_000,
    },
    newKey('c0ffee5a1f03c29e', { name: 'Phone' }, now - 3_600_000),
  ];
}

/** A key that was never used. */
export function newKey(id: string, change: Partial<ApiKeyChange>, createdAt: number): ApiKey {
  return {
    id,
    name: '',
    models: [],
    requestsPerMinute: 0,
    concurrentRequests: 0,
    priority: '',
    paired: false,
    createdAt,
    requests: 0,
    promptTokens: 0,
    generatedTokens: 0,
    lastUsedAt: 0,
    ...change,
  };
}

export function fakeCacheSettings(): CacheSettings {
  return {
    on: true,
    dir: '/home/you/.cache/headroom/blocks',
    maxBytes: 0,
    minFreeBytes: 0,
    dailyWriteBytes: 0,
    readOnly: [],
    needsRestart: [],
  };
}

export function fakeLog(now = Date.now()): LogLine[] {
  return [
    {
      number: 1,
      at: now - 9000,
      level: 'INFO',
      message: 'loading',
      fields: 'model=headroom-demo',
    },
    {
      number: 2,
      at: now - 8000,
      level: 'WARN',
      message: 'another port is used',
      fields: 'err="port 11811 is taken"',
    },
  ];
}
