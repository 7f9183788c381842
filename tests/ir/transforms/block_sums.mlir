// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" multiples="M=4","N=16" distinct=true bounds="N=2048"}' --block-sums --verify-mapped %s | filecheck %s
// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" multiples="M=4","N=16" distinct=true bounds="N=1024"}' --block-sums --verify-mapped %s | filecheck %s --check-prefix SHORT
// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" multiples="M=4","N=16" distinct=true bounds="N=100000"}' --block-sums --verify-mapped %s | filecheck %s --check-prefix LONG
// A sum of more chunks than a block has is added up in blocks of 64 chunks, each from 0; one that is known to be shorter
// stays as it is. More than 64 blocks are added in blocks themselves, and those with compensation. What blocks are added
// to lies in memory while a block runs.

vk.kernel @total(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  vk.store %sum in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      %[[BLOCK:[0-9]+]] = arith.constant 1024 : i64
// CHECK-NEXT: %[[ALL:[0-9]+]] = scf.for %[[O:[0-9]+]] = %{{[0-9]+}} to %N step %[[BLOCK]] iter_args(%[[T:[0-9]+]] = %{{[0-9]+}})
// CHECK-NEXT:   %[[SPILLED:[0-9]+]] = vk.spill %[[T]]
// CHECK-NEXT:   %[[NEXT:[0-9]+]] = arith.addi %[[O]], %[[BLOCK]] : i64
// CHECK-NEXT:   %[[END:[0-9]+]] = arith.minsi %[[NEXT]], %N : i64
// CHECK-NEXT:   %[[ZERO:[0-9]+]] = arith.constant dense<0.000000e+00>
// CHECK-NEXT:   %[[PART:[0-9]+]] = scf.for %j0 = %[[O]] to %[[END]] step %{{[0-9]+}} iter_args(%[[P:[0-9]+]] = %[[ZERO]])
// CHECK-NEXT:     %row = vk.load
// CHECK-NEXT:     %[[ADDED:[0-9]+]] = arith.addf %[[P]], %row
// CHECK-NEXT:     scf.yield %[[ADDED]]
// CHECK:        %[[RELOADED:[0-9]+]] = vk.reload %[[SPILLED]]
// CHECK-NEXT:   %[[REACHED:[0-9]+]] = arith.addf %[[RELOADED]], %[[PART]]
// CHECK-NEXT:   scf.yield %[[REACHED]]
// CHECK:      %sum = vk.sum %[[ALL]] along j
// CHECK-NOT:  arith.subf

// SHORT:      scf.for %j0
// SHORT-NOT:  scf.for
// SHORT:      vk.sum

// LONG:       scf.for %[[O:[0-9]+]] = {{.*}} iter_args(%[[T:[0-9]+]] = %{{[0-9]+}}, %[[E:[0-9]+]] = %{{[0-9]+}})
// LONG-DAG:     %[[ES:[0-9]+]] = vk.spill %[[E]]
// LONG-DAG:     %[[TS:[0-9]+]] = vk.spill %[[T]]
// LONG:         %[[BLOCKS:[0-9]+]] = scf.for
// LONG:           scf.for %j0
// LONG:           scf.yield
// LONG:           scf.yield
// LONG-DAG:     %[[ER:[0-9]+]] = vk.reload %[[ES]]
// LONG-DAG:     %[[TR:[0-9]+]] = vk.reload %[[TS]]
// LONG:         %[[ADDED:[0-9]+]] = arith.subf %[[BLOCKS]], %[[ER]] {vk.rounded}
// LONG-NEXT:    %[[REACHED:[0-9]+]] = arith.addf %[[TR]], %[[ADDED]] {vk.rounded}
// LONG-NEXT:    %[[MOVED:[0-9]+]] = arith.subf %[[REACHED]], %[[TR]] {vk.rounded}
// LONG-NEXT:    %[[ERROR:[0-9]+]] = arith.subf %[[MOVED]], %[[ADDED]] {vk.rounded}
// LONG-NEXT:    %[[NOTHING:[0-9]+]] = arith.subf %[[ERROR]], %[[ERROR]] {vk.rounded}
// LONG:         %[[IS:[0-9]+]] = arith.cmpf oeq, %[[NOTHING]],
// LONG-NEXT:    %[[KEPT:[0-9]+]] = arith.select %[[IS]], %[[ERROR]],
// LONG-NEXT:    scf.yield %[[REACHED]], %[[KEPT]]
