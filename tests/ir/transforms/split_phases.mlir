// RUN: vk-opt --split-phases %s | filecheck %s
// A reduction along a whole axis must be complete before its result is used; loads that both sides need cross over.

vk.kernel @softmax(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %largest = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %difference = arith.subf %row, %largest : tensor<?x?xf32, #vk.axes<i, j>>
  %e = math.exp %difference : tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %e along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %all = vk.broadcast %sum : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %share = arith.divf %e, %all : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %share in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
// CHECK-LABEL: vk.kernel @softmax
// CHECK:         %row, %max = vk.phase "max"
// CHECK:           vk.max
// CHECK-NEXT:      vk.yield
// CHECK:         %e, %sum = vk.phase "sum"
// CHECK:           arith.subf %row, %largest
// CHECK:           vk.sum
// CHECK-NEXT:      vk.yield
// CHECK:         vk.phase "out" {
// CHECK:           vk.store

// Two reductions that do not need each other share a phase, wherever the author wrote them.
vk.kernel @moments(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %double = arith.addf %sum, %sum : tensor<?xf32, #vk.axes<i>>
  %square = arith.mulf %row, %row : tensor<?x?xf32, #vk.axes<i, j>>
  %squares = vk.sum %square along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %result = arith.addf %squares, %double : tensor<?xf32, #vk.axes<i>>
  vk.store %result in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}
// CHECK-LABEL: vk.kernel @moments
// CHECK:         %sum, %squares = vk.phase "squares"
// CHECK:         vk.phase "out" {
// CHECK-NEXT:      %double = arith.addf %sum, %sum
// CHECK-NOT:     vk.phase

// Rows that are gathered must all have been read before any is written, in this iteration and the next: the loop
// over layers holds phases, the loop over a row's weights is part of one.
vk.kernel @layers(%y: !vk.tensor<[N, I], f32>, %column: !vk.tensor<[L, K, N], i64>, %out: !vk.tensor<[N, I], f32>) {
  %I = vk.size I
  vk.tile i < %I
  %N = vk.size N
  vk.whole n < %N
  %L = vk.size L
  %K = vk.size K
  %c0 = arith.constant 0 : i64
  %zero = arith.constant 0.0 : f32
  %rows = vk.scratch "rows" : !vk.scratch<[n, i], f32>
  %first = vk.load %y[n, i] : !vk.tensor<[N, I], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
  vk.store %first in %rows[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  vk.range %l = %c0 to %L {
    %zeros = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
    %total = vk.range %k = %c0 to %K carrying (%so_far = %zeros : tensor<?x?xf32, #vk.axes<n, i>>) {
      %c = vk.load %column[%l, %k, n] : !vk.tensor<[L, K, N], i64> -> tensor<?xi64, #vk.axes<n>>
      %row = vk.gather %rows[%c, i] : !vk.scratch<[n, i], f32>, (tensor<?xi64, #vk.axes<n>>) -> tensor<?x?xf32, #vk.axes<n, i>>
      %next = arith.addf %so_far, %row : tensor<?x?xf32, #vk.axes<n, i>>
      vk.yield %next : tensor<?x?xf32, #vk.axes<n, i>>
    }
    vk.store %total in %rows[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  }
  %last = vk.load %rows[n, i] : !vk.scratch<[n, i], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
  vk.store %last in %out[n, i] : !vk.tensor<[N, I], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
}
// CHECK-LABEL: vk.kernel @layers
// CHECK:         vk.phase "rows" {
// CHECK:         vk.range %l = %c0 to %L {
// CHECK-NEXT:      %total = vk.phase "total"
// CHECK:             vk.range %k = %c0 to %K
// CHECK-NEXT:          vk.load %column
// CHECK-NEXT:          vk.gather %rows
// CHECK:             vk.yield %total
// CHECK-NEXT:      }
// CHECK-NEXT:      vk.phase "rows_2" {
// CHECK-NEXT:        vk.store %total
// CHECK:         vk.phase "out" {

// The author's boundary ends a phase and names the next.
vk.kernel @boundary(%x: !vk.tensor<[N], f32>, %a: !vk.tensor<[N], f32>, %b: !vk.tensor<[N], f32>) {
  %N = vk.size N
  vk.whole n < %N
  %v = vk.load %x[n] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<n>>
  vk.store %v in %a[n] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<n>>
  vk.boundary "second"
  vk.store %v in %b[n] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<n>>
}
// CHECK-LABEL: vk.kernel @boundary
// CHECK:         vk.phase "a"
// CHECK:         vk.phase "second" {
// CHECK-NEXT:      vk.store %v in %b

// What a loop carries along different axes is separated, so that each runs along its own.
vk.kernel @separated(%x: !vk.tensor<[K, N], f32>, %y: !vk.tensor<[K, M], f32>, %a: !vk.tensor<[N], f32>, %b: !vk.tensor<[M], f32>) {
  %N = vk.size N
  vk.whole n < %N
  %M = vk.size M
  vk.whole m < %M
  %K = vk.size K
  %c0 = arith.constant 0 : i64
  %zero = arith.constant 0.0 : f32
  %zn = vk.broadcast %zero : f32 -> tensor<?xf32, #vk.axes<n>>
  %zm = vk.broadcast %zero : f32 -> tensor<?xf32, #vk.axes<m>>
  %sn, %sm = vk.range %k = %c0 to %K carrying (%an = %zn : tensor<?xf32, #vk.axes<n>>, %am = %zm : tensor<?xf32, #vk.axes<m>>) {
    %xn = vk.load %x[%k, n] : !vk.tensor<[K, N], f32> -> tensor<?xf32, #vk.axes<n>>
    %ym = vk.load %y[%k, m] : !vk.tensor<[K, M], f32> -> tensor<?xf32, #vk.axes<m>>
    %tn = arith.addf %an, %xn : tensor<?xf32, #vk.axes<n>>
    %tm = arith.addf %am, %ym : tensor<?xf32, #vk.axes<m>>
    vk.yield %tn, %tm : tensor<?xf32, #vk.axes<n>>, tensor<?xf32, #vk.axes<m>>
  }
  vk.store %sn in %a[n] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<n>>
  vk.store %sm in %b[m] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<m>>
}
// CHECK-LABEL: vk.kernel @separated
// CHECK:         %sn = vk.range
// CHECK-NEXT:      vk.load %x
// CHECK-NEXT:      arith.addf
// CHECK-NEXT:      vk.yield
// CHECK:         %sm = vk.range
// CHECK-NEXT:      vk.load %y

// What is computed before the author's boundary stays before it, though only the product after it uses the result.
vk.kernel @bounded(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %largest = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %difference = arith.subf %row, %largest : tensor<?x?xf32, #vk.axes<i, j>>
  %e = math.exp %difference : tensor<?x?xf32, #vk.axes<i, j>>
  vk.boundary
  %twice = arith.addf %e, %e : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %twice in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
// CHECK-LABEL: vk.kernel @bounded
// CHECK:         vk.phase "max"
// CHECK:         %e = vk.phase "e"
// CHECK:           math.exp
// CHECK:         vk.phase "out" {
// CHECK-NEXT:      arith.addf %e, %e

// What crosses the author's boundary does so in 16 bits where it was rounded to them, under the name that it has.
vk.kernel @rounded(%x: !vk.tensor<[M, N], f16>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %0 = vk.load %x[i, j] : !vk.tensor<[M, N], f16> -> tensor<?x?xf16, #vk.axes<i, j>>
  %row = arith.extf %0 : tensor<?x?xf16, #vk.axes<i, j>> to tensor<?x?xf32, #vk.axes<i, j>>
  vk.boundary
  vk.store %row in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
// CHECK-LABEL: vk.kernel @rounded
// CHECK:         %row = vk.phase "row" -> (tensor<?x?xf16
// CHECK:         vk.phase "out" {
// CHECK-NEXT:      arith.extf %row

// Both halves of a tensor are turned in place in one phase: no element of the one is in the other.
vk.kernel @halves(%x: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  %c2 = arith.constant 2 : i64
  %half = arith.floordivsi %N, %c2 : i64
  vk.whole j < %half
  %one = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %other = vk.load %x[i, %half + j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sum = arith.addf %one, %other : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %sum in %x[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
  %difference = arith.subf %one, %other : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %difference in %x[i, %half + j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
// CHECK-LABEL: vk.kernel @halves
// CHECK:         vk.phase "x" {
// CHECK-NEXT:      vk.load %x
// CHECK-NEXT:      vk.load %x
// CHECK-NOT:     vk.phase

// Halves that may have an element in common are not: all is read first.
vk.kernel @overlapping(%x: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  %c1 = arith.constant 1 : i64
  %c2 = arith.constant 2 : i64
  %half = arith.floordivsi %N, %c2 : i64
  %more = arith.addi %half, %c1 : i64
  vk.whole j < %more
  %one = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %other = vk.load %x[i, %half + j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sum = arith.addf %one, %other : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %sum in %x[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
// CHECK-LABEL: vk.kernel @overlapping
// CHECK:         %{{.*}} = vk.phase "{{.*}}" -> (
// CHECK:         vk.phase "x" {

// Where all programs wait after a loop over phases, it is the loop that they complete.
vk.kernel @steps(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %c0 = arith.constant 0 : i64
  vk.range %s = %c0 to %N {
    %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
    vk.store %sum in %x[i, %s] : !vk.tensor<[M, N], f32> <- tensor<?xf32, #vk.axes<i>>
  }
  vk.boundary "after" grid
  %turned = vk.load %x[%M + -1 * i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %turned in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
// CHECK-LABEL: vk.kernel @steps
// CHECK:         vk.range
// CHECK:           vk.phase "x" grid {
// CHECK:         vk.phase "after" {
