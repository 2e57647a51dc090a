"""Hadoop's local file system, without a process for each file, for the Spark that tests share.

Where its native library is not there, Hadoop runs `chmod` for each file and folder that it makes, and `readlink` twice for
each that it renames: dozens of processes for a micro-batch. Here Java changes and asks in its own process. All else,
checksums and their files too, is Hadoop's own. The processes that tests start have Hadoop's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connector.spark.internals import java_session, jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# in Hadoop's package, as Java lets a class be defined beside one of the same package
PACKAGE = "org.apache.hadoop.fs"
SOURCE = """
package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.permission.FsPermission;

public class InProcess {
  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
      Files.setAttribute(
        pathToFile(path).toPath(), "unix:mode", Integer.valueOf(permission.toShort()), new LinkOption[0]);
    }
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      boolean link = Files.isSymbolicLink(pathToFile(path).toPath());
      return link ? super.getFileLinkStatus(path) : getFileStatus(path);
    }
  }
  public static class Local extends LocalFileSystem {
    public Local() { super(new Raw()); }
  }
  public static class RawFs extends DelegateToFileSystem {
    public RawFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(uri, new Raw(), conf, "file", false);
    }
    public int getUriDefaultPort() { return -1; }
    public boolean isValidName(String name) { return true; }
  }
  public static class LocalFs extends ChecksumFs {
    public LocalFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(new RawFs(uri, conf));
    }
  }
}
"""
DEFINED = ("InProcess", "InProcess$Raw", "InProcess$Local", "InProcess$RawFs", "InProcess$LocalFs")
"""The classes, each after those that it uses."""

CLASSES = {
    "fs.file.impl": f"{PACKAGE}.InProcess$Local",
    "fs.AbstractFileSystem.file.impl": f"{PACKAGE}.InProcess$LocalFs",
}
"""By Hadoop's settings that name them."""


def use_local_files(spark: SparkSession) -> None:
    """Let a Spark that was just started write local files by Java alone. Only POSIX has the rights that are set."""
    jvm = jvm_of(spark)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.ClassLoader.getSystemClassLoader())
    compiler.cook(SOURCE)
    handles = jvm.java.lang.invoke.MethodHandles
    beside = jvm.java.lang.Class.forName(f"{PACKAGE}.RawLocalFileSystem")
    lookup = handles.privateLookupIn(beside, handles.lookup())
    codes = compiler.getBytecodes()
    for name in DEFINED:
        lookup.defineClass(codes[f"{PACKAGE}.{name}"])
    settings = java_session(spark).sparkContext().hadoopConfiguration()
    for name, value in CLASSES.items():
        settings.set(name, value)
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # those that were used so far are kept
