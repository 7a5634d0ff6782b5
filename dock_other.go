//go:build !darwin

package main

func setBadge(string) {}
