// The settings and the log with which the fake begins.
import type { CacheSettings, GeneralSettings, LogLine } from '../types';

export const defaultPort = 11811;

export function fakeGeneral(): GeneralSettings {
  return {
    port: defaultPort,
    apiKey: '',
    allowHosts: [],
    allowOrigins: [],
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
    saveOnBattery: true,
    throttleWhenHot: true,
    welcomed: true,
    path: '/home/you/.config/headroom/settings.json',
    readOnly: [],
    needsRestart: [],
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
